"""Agent files that are written while a project is open: checked first, then whole or not at all."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.agents.file import parse_agent
from penstock.agents.file_checks import Known
from penstock.agents.folders import FOLDERS
from penstock.core.call_errors import CallError
from penstock.core.diagnostics import Diagnostic, has_error
from penstock.resources.project_files import ProjectFiles, ProjectPath

WHERE = "an agent file must be agents/NAME.md or .pi/flows/agents/NAME.md"
SUFFIX = ".md"
_PLACE = re.compile(rf"(?:{'|'.join(map(re.escape, FOLDERS))})/[^/]+{re.escape(SUFFIX)}")
_LEFT_OUT = ".chain.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAgent:
    """What became of an agent that was to be written."""

    path: str
    """Relative to the project; as it was given, if that leads nowhere."""
    is_written: bool = False
    diagnostics: Sequence[Diagnostic] = ()
    error: str = ""
    """Why it was not written, other than by its text."""


def write_agent(files: ProjectFiles, path: str, content: str, known: Known) -> WrittenAgent:
    """Write an agent in the project, in the place of one that is there, unless it has errors.

    What is wrong with the text is said, too, where the place is none.
    """
    try:
        encoded = content.encode()
    except UnicodeEncodeError as broken:
        return WrittenAgent(path=path, error=f"the content is no Unicode text: {broken.reason}")
    place, error = _place(files, path)
    shown = place.real if place is not None else path
    found = parse_agent(content, shown, known).findings
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
    wanted = path if "/" in path else f"{FOLDERS[0]}/{path.removesuffix(SUFFIX)}{SUFFIX}"
    try:
        place = files.at(wanted)
    except CallError:
        return None, f"path is outside the project: {path}"
    if files.is_hidden(place.real):
        return None, f"path is outside the project: {path}"
    is_agent = _PLACE.fullmatch(place.real) and not place.real.endswith(_LEFT_OUT)
    return (place, "") if is_agent else (None, WHERE)
