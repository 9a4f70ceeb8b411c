"""Agent files on disk: find and read them all, and write one.

Reading guarantees: a broken file, an unreadable folder or a name that is defined twice becomes a
finding; the other agents work. Of one name in several folders the first counts: the project's
folders, then those of packages, then the built-in one. No file leads out of its project through a
link.

Writing guarantees: a file is written whole or not at all, and never with an error in it. The text
is checked together with the other files: a second agent of one name in a folder is an error. Shown
by tests/agents/test_agent_folders.py.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.agents.agent import Agent, AnyAgent
from penstock.agents.agent_file import (
    NOTHING_KNOWN,
    KnownNames,
    ParsedAgent,
    parse_agent,
    wrong_tools,
)
from penstock.agents.agent_profile import FileOptions, Tier
from penstock.core.call_errors import CallError
from penstock.core.diagnostics import (
    Diagnostic,
    Severity,
    errors_of,
    has_error,
    in_file_order,
    nearest,
)
from penstock.core.errors import DeclarationError
from penstock.core.exhaustion import raise_exhaustion
from penstock.core.ids import ASSISTANT
from penstock.manifest.authored_kinds import Item, meant
from penstock.manifest.fields import quoted
from penstock.manifest.files import UnreadReason, read_bounded, shown
from penstock.manifest.paths import escape_of
from penstock.resources.project.files import ProjectFiles, ProjectPath

FOLDERS = ("agents", ".pi/flows/agents")
"""Folders of a project's agents. An earlier folder hides names of a later one."""
BUILT_IN = Path(__file__).parent / "builtin"
"""The agents that every project has for flows."""
HANDBOOKS = Path(__file__).parent / "handbooks"
"""The handbooks that every project has."""
MAX_FILES = 2000
MAX_BYTES = 1024 * 1024
"""Limit on the size of one file, of an agent or of a flow."""
WHERE = "an agent file must be agents/NAME.md or .pi/flows/agents/NAME.md"
SUFFIX = ".md"
_PLACE = re.compile(rf"(?:{'|'.join(map(re.escape, FOLDERS))})/[^/]+{re.escape(SUFFIX)}")
_LEFT_OUT = ".chain.md"
"""Chains of agents: another format, which is not read."""


class AgentFiles(Struct):
    """The agents that can be used, by tier, and all findings."""

    agents: list[Agent] = field(default_factory=list)
    """The project's own."""
    packaged: list[Agent] = field(default_factory=list)
    built_in: list[Agent] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """Names of agents that only broken files define, with the file to repair."""
    handoffs: dict[str, Sequence[Item]] = field(default_factory=dict)
    """The agents that each file hands off to, by its path."""
    inner: dict[str, Sequence[Item]] = field(default_factory=dict)
    """The agents that each agent of a file lists as its tools, by its name."""
    diagnostics: list[Diagnostic] = field(default_factory=list)


class _Folder(Struct, frozen=True, kw_only=True):
    path: Path
    label: str
    """The name of the folder in findings."""
    tier: Tier
    root: Path | None = None
    """The project that no file may lead out of; None for packages and built-in agents."""

    def escape(self, name: str = "") -> Diagnostic | None:
        """Return the finding if the folder, or a file of it, leads out of its project."""
        path = f"{self.label}/{name}".rstrip("/")
        return None if self.root is None else escape_of(self.root, path)


def load_agents(
    root: Path, known: KnownNames = NOTHING_KNOWN, packages: Sequence[Path] = ()
) -> AgentFiles:
    """Read the agents of a project, of its packages, and the built-in ones.

    Agents with errors are left out. `packages` are folders in the order of their registration.
    """
    result, known = AgentFiles(), replace(known, has_all_agents=False)
    packaged = [
        _Folder(path=path, label=_label(path, root), tier=Tier.PACKAGE) for path in packages
    ]
    built_in = [_Folder(path=BUILT_IN, label="builtin", tier=Tier.BUILT_IN)]
    result.agents = _tier(_local(root), known, result)
    result.packaged = _tier(packaged, known, result)
    result.built_in = _tier(built_in, known, result)
    found = {each.name for each in (*result.agents, *result.packaged, *result.built_in)}
    known_agents = {ASSISTANT, *found, *result.broken, *known.agents}
    names = replace(known, agents=known_agents, has_all_agents=True)
    result.agents = _with_known(result.agents, names, result)
    result.packaged = _with_known(result.packaged, names, result)
    # A name is broken only if no tier has a working agent for it.
    for agent in (*result.agents, *result.packaged, *result.built_in):
        result.broken.pop(agent.name, None)
    result.diagnostics.sort(key=lambda each: (each.file, each.line, each.column, each.code))
    return result


def _with_known(agents: Iterable[Agent], known: KnownNames, result: AgentFiles) -> list[Agent]:
    """Return the agents whose tools and hand-offs exist; report the others."""
    fitting = []
    for agent in agents:
        file = agent.profile.file
        wrong = unknown_agents(result.handoffs.get(file, ()), known.agents, file)
        wrong += wrong_tools(agent.name, file, known, result.inner)
        result.diagnostics += wrong
        if wrong:
            result.broken.setdefault(agent.name, file)
        else:
            fitting.append(agent)
    return fitting


def unknown_agents(
    named: Iterable[Item], names: Collection[str], file: str, severity: Severity = Severity.ERROR
) -> list[Diagnostic]:
    """Return the findings about agents that a file hands off to and that do not exist."""
    return [
        Diagnostic(
            code="unknown-agent",
            message=f"unknown agent {quoted(name)} in {quoted('handoffs')}",
            file=file,
            line=place.line,
            column=place.column,
            severity=severity,
            suggestion=meant(nearest(name, names)),
        )
        for name, place in named
        if name not in names
    ]


def find_namesakes(
    root: Path, name: str, path: str, known: KnownNames = NOTHING_KNOWN
) -> Sequence[str]:
    """Return the other files of a project that define an agent of this name without errors.

    A file that hides others comes before them.
    """
    ignored = AgentFiles()
    parsed = (each for folder in _local(root) for each in _read(folder, known, ignored))
    return [file for file, other in parsed if other.agent and other.name == name and file != path]


def _local(root: Path) -> Sequence[_Folder]:
    return [_Folder(path=root / each, label=each, tier=Tier.LOCAL, root=root) for each in FOLDERS]


def _label(folder: Path, root: Path) -> str:
    inside = folder.is_relative_to(root)
    return (folder.relative_to(root) if inside else folder).as_posix()


def _tier(folders: Iterable[_Folder], known: KnownNames, result: AgentFiles) -> list[Agent]:
    """Return the agents of one tier. Of two with the same name the first one counts."""
    agents: dict[str, Agent] = {}
    homes: dict[str, tuple[_Folder, str, ParsedAgent]] = {}
    for folder in folders:
        for file, read in _read(folder, known, result):
            result.diagnostics += read.findings
            if read.agent is None:
                if read.name:
                    result.broken.setdefault(read.name, file)
            elif home := homes.get(read.name):
                result.diagnostics.append(_again(read, file, home, is_same=home[0] is folder))
            else:
                homes[read.name] = (folder, file, read)
                result.handoffs[file] = read.handoffs
                result.inner.setdefault(read.name, read.inner)
                agents[read.name] = read.agent
    return list(agents.values())


def _read(
    folder: _Folder, known: KnownNames, result: AgentFiles
) -> Iterable[tuple[str, ParsedAgent]]:
    if escape := folder.escape():
        result.diagnostics.append(escape)
        return
    names = _names(folder.path)
    if len(names) > MAX_FILES:
        message = f"the folder has {len(names)} files, only {MAX_FILES} are read"
        finding = Diagnostic(code="too-many-files", message=message, file=folder.label)
        result.diagnostics.append(finding)
    for name in names[:MAX_FILES]:
        file = f"{folder.label}/{shown(name)}"
        escape = folder.escape(name)
        refused = escape and ParsedAgent(findings=[escape])
        yield file, refused or _read_file(folder.path / name, file, known, folder.tier)


def _names(folder: Path) -> list[str]:
    try:
        names = [each.name for each in os.scandir(folder)]
    except OSError as error:
        # Without free file descriptors or memory, "no agents" would be a wrong answer: raise.
        raise_exhaustion(error)
        return []
    agent_files = (name for name in names if name.endswith(SUFFIX) and not name.endswith(_LEFT_OUT))
    # By bytes: names that are not UTF-8 have surrogates, which have no order that all agree on.
    return sorted(agent_files, key=os.fsencode)


def _read_file(path: Path, file: str, known: KnownNames, tier: Tier) -> ParsedAgent:
    content = read_bounded(path, MAX_BYTES)
    if isinstance(content, UnreadReason):
        return _refused(content.code, content.message, file)
    if tier is Tier.BUILT_IN:
        return _parse_built_in(content, file)
    try:
        return parse_agent(content.decode(), file, known, tier)
    except UnicodeDecodeError as error:
        return _refused("file-encoding", f"not UTF-8 at byte {error.start}", file)


@cache
def _parse_built_in(content: bytes, file: str) -> ParsedAgent:
    """Parse a built-in agent once. It refers to built-in things only, so no name is checked."""
    return parse_agent(content.decode(), file, tier=Tier.BUILT_IN)


def read_agent(path: str | Path, output: Any, options: Mapping[str, Any]) -> AnyAgent:
    """Return the agent that one file defines, as `Agent.from_file` does."""
    for name in options:
        if name not in FileOptions.__annotations__:
            known = ", ".join(["output", *FileOptions.__annotations__])
            raise TypeError(
                f"Agent.from_file has no argument {name!r}: it takes {known}; its file says the "
                "rest"
            )
    file = Path(path)
    if not file.is_file():
        refused = Diagnostic(
            code="file-unreadable", message="there is no such file", file=f"{path}"
        )
        raise DeclarationError([refused])
    read = _read_file(file, f"{path}", NOTHING_KNOWN, Tier.LOCAL)
    if read.agent is None:
        raise DeclarationError(errors_of(read.findings))
    given: AnyAgent = Agent(read.name, output=output, **options)
    names = ("output", "contract", "output_form", "history", "hooks")
    return read.agent.__replace__(**{name: getattr(given, name) for name in names})


def _refused(code: str, message: str, file: str) -> ParsedAgent:
    return ParsedAgent(findings=[Diagnostic(code=code, message=message, file=file)])


def _again(
    read: ParsedAgent, file: str, home: tuple[_Folder, str, ParsedAgent], *, is_same: bool
) -> Diagnostic:
    """Return the finding for a second agent of a name, at it or (another folder) at the first."""
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


class WrittenAgent(Struct, frozen=True, kw_only=True):
    """The result of writing an agent."""

    path: str
    """Relative to the project; as it was passed if it is not a valid place."""
    is_written: bool = False
    diagnostics: Sequence[Diagnostic] = ()
    error: str = ""
    """The reason other than findings why it was not written."""


def write_agent(files: ProjectFiles, path: str, content: str, known: KnownNames) -> WrittenAgent:
    """Write or replace an agent file of the project, unless the text has errors.

    The findings are complete even if the path is refused, so that the author can fix both at once.
    """
    try:
        encoded = content.encode()
    except UnicodeEncodeError as broken:
        return WrittenAgent(path=path, error=f"the content is not Unicode text: {broken.reason}")
    place, error = _place(files, path)
    shown = place.real if place is not None else path
    read = parse_agent(content, shown, known)
    findings = read.findings
    if place is not None and read.agent is not None:
        others = find_namesakes(files.root, read.name, place.real, known)
        findings = in_file_order([*findings, *(_beside(read, place.real, each) for each in others)])
    # Two agents may hand off to each other: the first one is written before the other exists.
    names = {read.name, ASSISTANT, *known.agents}
    unknown = unknown_agents(read.handoffs, names, shown, Severity.WARNING)
    findings = in_file_order([*findings, *unknown])
    written = WrittenAgent(path=shown, diagnostics=findings, error=error)
    if place is None or has_error(findings):
        return written
    try:
        files.write(place, encoded)
    except CallError as failure:
        return replace(written, error=str(failure))
    return replace(written, is_written=True)


def _place(files: ProjectFiles, path: str) -> tuple[ProjectPath | None, str]:
    """Return the place of an agent file, or the reason why it cannot be written there."""
    full_path = path if "/" in path else f"{FOLDERS[0]}/{_with_suffix(path)}"
    try:
        place = files.at(full_path)
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
    """Return the finding for an agent whose name another file of the project has, too."""
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
    relation = f"hides the one in {other}" if is_first else f"is hidden by the one in {other}"
    return replace(
        finding,
        code="hidden",
        message=f'agent "{read.name}" {relation}',
        severity=Severity.WARNING,
        suggestion=None if is_first else finding.suggestion,
    )
