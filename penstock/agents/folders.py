"""Where agent files lie: a project's folders before those of packages, these before our own."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import Tier
from penstock.agents.file import NOTHING_KNOWN, KnownNames, ParsedAgent, parse_agent
from penstock.core.call_errors import CallError
from penstock.core.diagnostics import Diagnostic, Severity, has_error, in_file_order
from penstock.core.exhaustion import raise_exhaustion
from penstock.manifest.files import UnreadReason, read_bounded, shown
from penstock.manifest.paths import escape_of
from penstock.resources.project.files import ProjectFiles, ProjectPath

FOLDERS = ("agents", ".pi/flows/agents")
"""Where a project's agents lie; an earlier folder hides names of a later one."""
BUILT_IN = Path(__file__).parent / "builtin"
"""The agents that every project has for flows."""
HANDBOOKS = Path(__file__).parent / "handbooks"
"""The handbooks that every project has."""
MOST_FILES = 2000
MOST_BYTES = 1024 * 1024
"""Of one file, of an agent or of a flow."""


class AgentFiles(Struct):
    """What was found: the agents that can be used, and every finding."""

    agents: list[Agent] = field(default_factory=list)
    """The project's own."""
    packaged: list[Agent] = field(default_factory=list)
    built_in: list[Agent] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """Names that only agents with errors have, with the file that is to be mended."""
    diagnostics: list[Diagnostic] = field(default_factory=list)


class _Folder(Struct, frozen=True, kw_only=True):
    path: Path
    label: str
    """How its files are named in findings."""
    tier: Tier
    root: Path | None = None
    """The project, out of which no file may lead; of a package or our own there is none."""

    def escape(self, name: str = "") -> Diagnostic | None:
        """Return what is said if the folder, or a file of it, leads out of its project."""
        path = f"{self.label}/{name}".rstrip("/")
        return None if self.root is None else escape_of(self.root, path)


def load_agents(
    root: Path, known: KnownNames = NOTHING_KNOWN, packages: Sequence[Path] = ()
) -> AgentFiles:
    """Read every agent of a project, of its packages and our own; one with an error takes no part.

    Packages are given in the order in which they were registered.
    """
    found = AgentFiles()
    given = [_Folder(path=each, label=_label(each, root), tier=Tier.PACKAGE) for each in packages]
    own = [_Folder(path=BUILT_IN, label="builtin", tier=Tier.BUILT_IN)]
    found.agents = _tier(_local(root), known, found)
    found.packaged = _tier(given, known, found)
    found.built_in = _tier(own, known, found)
    for each in (*found.agents, *found.packaged, *found.built_in):
        found.broken.pop(each.name, None)
    found.diagnostics.sort(key=lambda each: (each.file, each.line, each.column, each.code))
    return found


def find_namesakes(
    root: Path, name: str, path: str, known: KnownNames = NOTHING_KNOWN
) -> Sequence[str]:
    """Return the other files of a project that have an agent of a name; one with errors has none.

    Those that hide others come first.
    """
    found = AgentFiles()
    read = (each for folder in _local(root) for each in _read(folder, known, found))
    return [file for file, other in read if other.agent and other.name == name and file != path]


def _local(root: Path) -> Sequence[_Folder]:
    return [_Folder(path=root / each, label=each, tier=Tier.LOCAL, root=root) for each in FOLDERS]


def _label(folder: Path, root: Path) -> str:
    inside = folder.is_relative_to(root)
    return (folder.relative_to(root) if inside else folder).as_posix()


def _tier(folders: Iterable[_Folder], known: KnownNames, found: AgentFiles) -> list[Agent]:
    """Return the agents of one tier; of two with one name the first one counts."""
    agents: dict[str, Agent] = {}
    homes: dict[str, tuple[_Folder, str, ParsedAgent]] = {}
    for folder in folders:
        for file, read in _read(folder, known, found):
            found.diagnostics += read.findings
            if read.agent is None:
                if read.name:
                    found.broken.setdefault(read.name, file)
            elif home := homes.get(read.name):
                found.diagnostics.append(_again(read, file, home, is_same=home[0] is folder))
            else:
                homes[read.name] = (folder, file, read)
                agents[read.name] = read.agent
    return list(agents.values())


def _read(
    folder: _Folder, known: KnownNames, found: AgentFiles
) -> Iterable[tuple[str, ParsedAgent]]:
    if escape := folder.escape():
        found.diagnostics.append(escape)
        return
    names = _names(folder.path)
    if len(names) > MOST_FILES:
        said = f"the folder has {len(names)} files, only {MOST_FILES} are read"
        found.diagnostics.append(Diagnostic(code="too-many-files", message=said, file=folder.label))
    for name in names[:MOST_FILES]:
        file = f"{folder.label}/{shown(name)}"
        escape = folder.escape(name)
        refused = escape and ParsedAgent(findings=[escape])
        yield file, refused or _read_file(folder.path / name, file, known, folder.tier)


def _names(folder: Path) -> list[str]:
    try:
        names = [each.name for each in os.scandir(folder)]
    except OSError as error:
        raise_exhaustion(error)
        return []
    wanted = (each for each in names if each.endswith(".md") and not each.endswith(".chain.md"))
    return sorted(wanted, key=os.fsencode)


def _read_file(path: Path, file: str, known: KnownNames, tier: Tier) -> ParsedAgent:
    content = read_bounded(path, MOST_BYTES)
    if isinstance(content, UnreadReason):
        return _refused(content.code, content.message, file)
    try:
        return parse_agent(content.decode(), file, known, tier)
    except UnicodeDecodeError as error:
        return _refused("file-encoding", f"not UTF-8 at byte {error.start}", file)


def _refused(code: str, message: str, file: str) -> ParsedAgent:
    return ParsedAgent(findings=[Diagnostic(code=code, message=message, file=file)])


def _again(
    read: ParsedAgent, file: str, home: tuple[_Folder, str, ParsedAgent], *, is_same: bool
) -> Diagnostic:
    """Return what is said of a second agent of one name: in one folder at it, else at the first."""
    _, first, winner = home
    if is_same:
        message = f'agent "{read.name}" is already defined in {first}'
        line, column = read.place.line, read.place.column
        return Diagnostic(
            code="duplicate-agent", message=message, file=file, line=line, column=column
        )
    return Diagnostic(
        code="hidden",
        message=f'agent "{read.name}" hides the one in {file}',
        file=first,
        line=winner.place.line,
        column=winner.place.column,
        severity=Severity.WARNING,
    )


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
