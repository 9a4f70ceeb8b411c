"""Finds flow files, and derives each command from its path.

Guarantees: every command has at most one file. Of several candidates the precedence is fixed:
project before packages before built-in, `flows/` before `.pi/flows/flows/`, a folder with
`flow.yaml` before a file, then path order; a hidden file is reported. Folders that are symbolic
links are not entered, and files that are links out of the root are refused. Nothing raises on
broken files or unreadable folders; problems become diagnostics. Tests:
tests/flows/project/test_files.py.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.agents.agent_folders import MAX_BYTES
from penstock.agents.agent_profile import Tier
from penstock.core.diagnostics import Diagnostic, Severity
from penstock.core.exhaustion import raise_exhaustion
from penstock.flows.checks.context import FLOW, CheckContext
from penstock.flows.parsed_flow import ParsedFlow
from penstock.flows.parsing import read_flow
from penstock.flows.project.library import SUFFIXES, file_name
from penstock.manifest.document import Document, SourceRange
from penstock.manifest.files import UnreadReason, leads_to_folder, read_bounded, shown
from penstock.manifest.paths import escape_of

BUILT_IN = Path(__file__).parents[1] / "builtin"
"""Folder of the flows that every project has."""
BUILT_IN_HOME = "builtin"
"""Stored with runs in place of that folder, whose path depends on the installation."""
HIDDEN = ".pi/flows/flows"
"""The only hidden folder that may contain flows."""
FOLDERS = ("flows", HIDDEN)
"""Folders of a project's flows, in order of precedence."""
NOT_SEARCHED = frozenset({"handlers"})
MAX_NAMESPACES = 5
MAX_FILES = 2000
RESERVED = frozenset({"call", "web", "new"})
"""Names of built-in chat commands."""
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_TOP = SourceRange(line=1, column=1)


class FlowFile(Struct, frozen=True, kw_only=True):
    """A file that is a flow because of its path."""

    command: str
    """Without the slash, such as `dom:apply`."""
    path: str
    """Relative to the root, with `/`."""
    root: Path
    """The project, or a package's folder. Everything that the flow refers to is below it."""
    tier: Tier

    @property
    def home(self) -> str:
        """The root as runs store it; empty for the project."""
        if self.tier is Tier.BUILT_IN:
            return BUILT_IN_HOME
        return "" if self.tier is Tier.LOCAL else self.root.as_posix()

    @property
    def name(self) -> str:
        """The path as findings show it."""
        return file_name(self.path, self.home)


class FlowIndex(Struct):
    """Flows by command, and the problems with their names."""

    files: dict[str, FlowFile] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def find_flows(root: Path, packages: Sequence[Path] = ()) -> FlowIndex:
    """Find the flows of a project and of its packages."""
    flows = FlowIndex()
    flows.diagnostics += filter(None, (escape_of(root, each) for each in FOLDERS))
    _add(flows, _tier(_local(root)))
    _add(flows, _tier((package, "", Tier.PACKAGE) for package in packages))
    return flows


def local_by_path(flows: FlowIndex) -> dict[str, FlowFile]:
    """Return the flows of the project itself, by path. Packages may have equal paths."""
    local = (file for _, file in sorted(flows.files.items()) if file.tier is Tier.LOCAL)
    return {file.path: file for file in local}


def find_namesakes(file: FlowFile) -> Sequence[FlowFile]:
    """Return the other files of the project with the same command, in order of precedence."""
    candidates = islice(_tier(_local(file.root)), MAX_FILES)
    inside = (candidate.file for candidate in candidates if candidate.escape is None)
    same = (other for other in inside if other.command == file.command)
    return [other for other in same if other.path != file.path]


def hides(file: FlowFile, other: FlowFile) -> bool:
    """Whether a file has precedence over another one with the same command."""
    return _rank(file.path) < _rank(other.path)


def built_in_flows() -> FlowIndex:
    """Find the built-in flows."""
    flows = FlowIndex()
    _add(flows, _tier([(BUILT_IN, "", Tier.BUILT_IN)]))
    return flows


def read_flow_file(file: FlowFile) -> ParsedFlow:
    """Read a flow. Never raises; problems are in the result."""
    return _read(file.root / file.path, file.name)


def command_of(path: str, home: str = "") -> str:
    """Return the command for a path in a project, or in a package's folder of flows."""
    return ":".join(_parts_of(path, home))


def file_at(path: str, root: Path, home: str) -> FlowFile:
    """Return the flow file at a path below a root."""
    tier = {"": Tier.LOCAL, BUILT_IN_HOME: Tier.BUILT_IN}.get(home, Tier.PACKAGE)
    return FlowFile(command=command_of(path, home), path=path, root=root, tier=tier)


def odd_name(file: FlowFile) -> Diagnostic | None:
    """Return the problem with a file's command, or None."""
    *folders, name = _parts_of(file.path)
    unseen = (each for each in folders if each in NOT_SEARCHED)
    bad = _bad_part([*folders, name]) or next(unseen, None)
    if bad is not None:
        return _bad_name(file, bad)
    return _reserved(file) if file.command in RESERVED else None


class FlowRoot:
    """Reads flows below one folder, for flows that refer to them. Each file is read once.

    Flows in `kept` (path -> text) are not read from disk.
    """

    def __init__(
        self, root: Path, home: str = "", kept: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._root = root
        self._home = home
        self._real = os.path.realpath(root)
        self._flows: dict[str, ParsedFlow | None] = {
            path: read_flow(text, file_name(path, home))
            for path, text in kept.items()
            if path.endswith(SUFFIXES)
        }

    def flow_at(self, path: str) -> ParsedFlow | None:
        """Return the flow of a file, even if it has errors; None if the file does not exist."""
        if path not in self._flows:
            is_flow = path.endswith(SUFFIXES) and self.has_file(path)
            self._flows[path] = self._read(path) if is_flow else None
        return self._flows[path]

    def text_at(self, path: str) -> str | None:
        """Return the text of a flow; None if the file does not exist."""
        read = self.flow_at(path)
        return None if read is None else read.text

    def has_file(self, path: str) -> bool:
        """Whether the path is a file whose real location is below the folder."""
        try:
            real = os.path.realpath(self._root / path)
            is_file = Path(real).is_file()
        except (OSError, ValueError):
            return False
        return is_file and _is_below(real, self._real)

    def check_context(self, file: FlowFile, project: CheckContext) -> CheckContext:
        """Return the check context of one flow of the folder."""
        return replace(
            project,
            file=file.path,
            command=file.command,
            flow_at=self.flow_at,
            has_file=self.has_file,
        )

    def _read(self, path: str) -> ParsedFlow:
        return _read(self._root / path, file_name(path, self._home))


class _Candidate(Struct, frozen=True, kw_only=True):
    """A file that may be a flow, if its path is a valid command."""

    file: FlowFile
    parts: tuple[str, ...]
    is_folder: bool
    escape: Diagnostic | None
    """Finding for a symbolic link that leads out of the root."""


def _local(root: Path) -> Iterator[tuple[Path, str, Tier]]:
    return ((root, folder, Tier.LOCAL) for folder in FOLDERS)


def _rank(path: str) -> tuple[int, bool, str]:
    folder = next(rank for rank, name in enumerate(FOLDERS) if path.startswith(f"{name}/"))
    above = path.removeprefix(f"{FOLDERS[folder]}/").split("/")
    return folder, not (len(above) > 1 and above[-1] == FLOW), path


def _tier(places: Iterable[tuple[Path, str, Tier]]) -> Iterator[_Candidate]:
    """Yield the files of a tier in order of precedence."""
    for root, folder, tier in places:
        if _has_link(root, folder):
            continue
        candidates = list(islice(_walk(root, folder, tier), MAX_FILES + 1))
        yield from sorted(candidates, key=lambda each: (not each.is_folder, each.file.path))


def _has_link(root: Path, folder: str) -> bool:
    parts = folder.split("/") if folder else []
    return any((root / "/".join(parts[:end])).is_symlink() for end in range(1, len(parts) + 1))


def _walk(root: Path, folder: str, tier: Tier) -> Iterator[_Candidate]:
    """Yield the flow files below a folder. Hidden and linked folders are skipped."""
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        parts = waiting.pop()
        here = "/".join((folder, *parts) if folder else parts)
        entries = _entries(root / here)
        names = {entry.name: entry for entry in entries if not leads_to_folder(entry)}
        flow = FLOW if parts and FLOW in names else None
        for name in [flow] if flow else names:
            own = parts if flow else (*parts, name.rpartition(".")[0])
            path = f"{here}/{name}" if here else name
            file = FlowFile(command=":".join(own), path=path, root=root, tier=tier)
            escape = escape_of(root, path) if names[name].is_symlink() else None
            yield _Candidate(file=file, parts=own, is_folder=bool(flow), escape=escape)
        if not flow and len(parts) <= MAX_NAMESPACES:
            waiting += [(*parts, entry.name) for entry in entries if leads_to_folder(entry)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the relevant entries of a folder: sub-folders, and files that may be flows."""
    try:
        with os.scandir(folder) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise_exhaustion(error)
        return []
    return sorted((entry for entry in visible if _counts(entry)), key=lambda entry: entry.name)


def _counts(entry: os.DirEntry[str]) -> bool:
    if leads_to_folder(entry):
        return not entry.is_symlink() and entry.name not in NOT_SEARCHED
    return entry.name.endswith(SUFFIXES)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _add(flows: FlowIndex, candidates: Iterable[_Candidate]) -> None:
    """Add the files of a tier. Commands of earlier tiers stay; that is not reported."""
    own: dict[str, FlowFile] = {}
    for count, candidate in enumerate(candidates, 1):
        if count > MAX_FILES:
            message = (
                f"there are more than {MAX_FILES} flow files; this one and others are not read"
            )
            flows.diagnostics.append(_finding("too-many-files", message, candidate.file))
            break
        if candidate.escape:
            flows.diagnostics += [candidate.escape] if candidate.file.tier is Tier.LOCAL else []
            continue
        bad = _bad_part(candidate.parts)
        if bad is not None:
            flows.diagnostics.append(_bad_name(candidate.file, bad))
        elif first := own.get(candidate.file.command):
            message = f'flow "/{first.command}" hides the one in {candidate.file.name}'
            flows.diagnostics.append(_finding("hidden", message, first, Severity.WARNING))
        else:
            own[candidate.file.command] = candidate.file
            if candidate.file.command in RESERVED:
                flows.diagnostics.append(_reserved(candidate.file))
    flows.files = own | flows.files


def _bad_name(file: FlowFile, part: str) -> Diagnostic:
    """Return the finding for a file whose path is not a valid command."""
    message = f'"{shown(part)}" cannot be part of a command'
    finding = _finding("bad-command-name", message, file)
    if part in NOT_SEARCHED:
        return replace(finding, suggestion="modules of code steps lie there: choose another folder")
    is_deep = bool(_PART.fullmatch(part))
    advice = f"namespaces nest up to {MAX_NAMESPACES} deep" if is_deep else None
    return replace(finding, suggestion=advice)


def _parts_of(path: str, home: str = "") -> list[str]:
    """Return the parts of the command that a path means."""
    folders = (f"{each}/" for each in FOLDERS if not home)
    folder = next((each for each in folders if path.startswith(each)), "")
    *above, name = path.removeprefix(folder).split("/")
    return above if above and name == FLOW else [*above, name.rpartition(".")[0]]


def _bad_part(parts: Sequence[str]) -> str | None:
    for part in parts:
        if not _PART.fullmatch(part):
            return part
    return parts[MAX_NAMESPACES] if len(parts) > MAX_NAMESPACES + 1 else None


def _reserved(file: FlowFile) -> Diagnostic:
    message = f'"/{file.command}" is a built-in command; in a chat this flow cannot be called'
    return _finding("command-reserved", message, file, Severity.WARNING)


def _finding(
    code: str, message: str, file: FlowFile, severity: Severity = Severity.ERROR
) -> Diagnostic:
    return Diagnostic(code=code, message=message, file=file.name, severity=severity)


def _read(path: Path, name: str) -> ParsedFlow:
    content = read_bounded(path, MAX_BYTES, "the flow")
    if isinstance(content, UnreadReason):
        document = Document(file=name)
        document.problem(content.code, content.message, _TOP)
        return ParsedFlow(document=document, source="")
    return read_flow(content, name)
