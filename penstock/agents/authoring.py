"""Agent files that are written while a project is open: checked first, then whole or not at all."""

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from penstock.agents.file import ParsedAgent, parse_agent
from penstock.agents.file_checks import KnownNames
from penstock.agents.folders import FOLDERS, find_namesakes
from penstock.core.call_errors import CallError
from penstock.core.diagnostics import Diagnostic, Severity, has_error, in_file_order
from penstock.resources.project.files import ProjectFiles, ProjectPath

WHERE = "an agent file must be agents/NAME.md or .pi/flows/agents/NAME.md"
SUFFIX = ".md"
_PLACE = re.compile(rf"(?:{'|'.join(map(re.escape, FOLDERS))})/[^/]+{re.escape(SUFFIX)}")
_LEFT_OUT = ".chain.md"


class WrittenAgent(Struct, frozen=True, kw_only=True):
    """The result of writing an agent."""

    path: str
    """Relative to the project; as it was given, if that leads nowhere."""
    is_written: bool = False
    diagnostics: Sequence[Diagnostic] = ()
    error: str = ""
    """Why it was not written, other than by its text."""


def write_agent(files: ProjectFiles, path: str, content: str, known: KnownNames) -> WrittenAgent:
    """Write an agent in the project, in the place of one that is there, unless it has errors.

    What is wrong with the text is said, too, where the place is none.
    """
    try:
        encoded = content.encode()
    except UnicodeEncodeError as broken:
        return WrittenAgent(path=path, error=f"the content is no Unicode text: {broken.reason}")
    place, error = _place(files, path)
    shown = place.real if place is not None else path
    read = parse_agent(content, shown, known)
    found = read.findings
    if place is not None and read.agent is not None:
        others = find_namesakes(files.root, read.name, place.real, known)
        found = in_file_order([*found, *(_beside(read, place.real, each) for each in others)])
    written = WrittenAgent(path=shown, diagnostics=found, error=error)
    if place is None or has_error(found):
        return written
    try:
        files.write(place, encoded)
    except CallError as failure:
        return replace(written, error=str(failure))
    return replace(written, is_written=True)


def _place(files: ProjectFiles, path: str) -> tuple[ProjectPath | None, str]:
    """Return where an agent is to lie, or why it cannot lie there."""
    wanted = path if "/" in path else f"{FOLDERS[0]}/{_with_suffix(path)}"
    try:
        place = files.at(wanted)
    except CallError:
        return None, f"path is outside the project: {path}"
    if files.is_hidden(place.real):
        return None, f"path is outside the project: {path}"
    is_agent = _PLACE.fullmatch(place.real) and not place.real.endswith(_LEFT_OUT)
    return (place, "") if is_agent else (None, WHERE)


def _with_suffix(name: str) -> str:
    """Return the file's name. A name without a suffix gets `.md`."""
    return name if "." in name else f"{name}{SUFFIX}"


def _beside(read: ParsedAgent, path: str, other: str) -> Diagnostic:
    """Return what is said of an agent that has the name of one in another file of the project."""
    finding = Diagnostic(
        code="duplicate-agent",
        message=f'agent "{read.name}" is already defined in {other}',
        file=path,
        line=read.place.line,
        column=read.place.column,
        suggestion=f"write {other} instead, or choose another name",
    )
    folders = [FOLDERS.index(each.rpartition("/")[0]) for each in (path, other)]
    if folders[0] == folders[1]:
        return finding
    is_first = folders[0] < folders[1]
    said = f"hides the one in {other}" if is_first else f"is hidden by the one in {other}"
    return replace(
        finding,
        code="hidden",
        message=f'agent "{read.name}" {said}',
        severity=Severity.WARNING,
        suggestion=None if is_first else finding.suggestion,
    )
