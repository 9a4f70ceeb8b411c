"""All manifests of a project, read and checked together.

`load_bundle` never raises for what an author wrote: each file becomes a value with diagnostics, and
a file with an error is excluded from `tools` and `skills`, but its id stays known as broken. So
one mistake costs one tool, and a reference to a broken tool is not reported as unknown.

Files are read first, each alone; only then are references checked, because any file may name any
other. Checks add their diagnostics to the document of the file that they are about. Shown by
tests/manifest/test_bundle.py.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic, has_error, sort
from penstock.manifest.document import Document, SourceRange
from penstock.manifest.fields import Node, described, quoted
from penstock.manifest.files import ManifestFolder, UnreadReason, discover, read_bounded, shown
from penstock.manifest.paths import escape_of
from penstock.manifest.permissions import PermissionCatalog, read_permissions, written_ids
from penstock.manifest.prompts import Prompts, read_prompts
from penstock.manifest.references import (
    ParsedSkill,
    ParsedTool,
    ProjectNames,
    References,
    check_cycles,
    check_engine,
    check_ids,
    check_script_tools,
    duplicate,
    inline_tools,
)
from penstock.manifest.schedules.schedule import (
    ScheduleManifest,
    check_agents,
    read_schedule,
)
from penstock.manifest.schedules.schedule import (
    check_ids as check_schedules,
)
from penstock.manifest.skill import SkillManifest, read_skill
from penstock.manifest.tool import ToolManifest, read_tool
from penstock.manifest.yaml_document import parse_yaml

MANIFEST_BYTES = 262_144
"""A larger manifest is not read."""
_TOP = SourceRange(line=1, column=1)
_READERS: Mapping[str, tuple[str, Callable[[Node], Any]]] = {
    "tool": ("a tool manifest", read_tool),
    "skill": ("a skill manifest", read_skill),
    "permissions": ("a permissions manifest", read_permissions),
    "prompts": ("a prompts manifest", read_prompts),
    "schedule": ("a schedule", read_schedule),
}
Findings = Mapping[str, Sequence[Diagnostic]]
"""Diagnostics by the id of the tool or skill that they are about."""


class ParsedManifest(Struct, frozen=True, kw_only=True):
    """The result of reading one file; its diagnostics are in the document of `node`."""

    noun: str
    node: Node
    manifest: Any = None
    """None if the file does not hold a mapping."""


class Bundle(Struct, frozen=True, kw_only=True):
    """All manifests of a project: what can be used, what is broken, and every diagnostic."""

    tools: Mapping[str, ToolManifest] = field(default_factory=dict)
    """Callable tools by id, with those that skills define inline."""
    skills: Mapping[str, SkillManifest] = field(default_factory=dict)
    """Selectable skills by id."""
    broken_tools: Findings = field(default_factory=dict)
    """Tools that exist but cannot be called, with their diagnostics."""
    broken_skills: Findings = field(default_factory=dict)
    every_tool: Sequence[ToolManifest] = ()
    """All tools, broken ones included; an invalid field has its default."""
    permissions: PermissionCatalog | None = None
    """None allows every permission id."""
    prompts: Prompts | None = None
    schedule_files: Sequence[ParsedManifest] = ()
    """The files of schedules, broken ones included."""
    broken_nouns: frozenset[str] = frozenset()
    """Kinds of manifest, such as `prompts`, of which at least one file has an error."""
    diagnostics: Sequence[Diagnostic] = ()
    """All diagnostics, sorted."""
    tool_count: int = 0
    """Counts broken tools, also those without a readable id."""
    skill_count: int = 0
    reached: frozenset[str] = frozenset()
    """Project files that the scripts import, existing or not; a change to one reloads the tools."""

    @property
    def named_permissions(self) -> frozenset[str]:
        """Return every permission that the catalog lists or a tool or skill requires."""
        tools = (tool.requires_permissions for tool in self.tools.values())
        skills = (skill.requires_permissions for skill in self.skills.values())
        cataloged = self.permissions.ids if self.permissions else frozenset()
        return cataloged.union(*tools, *skills)

    @property
    def schedules(self) -> Mapping[str, ScheduleManifest]:
        """Return the schedules without errors, by id."""
        return {each.schedule_id: each for each in _valid(self.schedule_files)}

    @property
    def broken_schedules(self) -> frozenset[str]:
        """Return the files of schedules that have errors."""
        files = self.schedule_files
        return frozenset(each.node.document.file for each in files if is_broken(each.node))

    def check_agents(self, agents: Mapping[str, Sequence[str] | None]) -> list[Diagnostic]:
        """Check the agents of schedules; `agents` has their labels, None where unknown.

        Returns the findings. A schedule with an unknown agent is broken from then on.
        """
        findings: list[Diagnostic] = []
        for schedule, node in _schedules(self.schedule_files):
            before = len(node.document.problems)
            check_agents([(schedule, node)], agents)
            findings += node.document.problems[before:]
        return findings

    def with_findings(self, further: Findings) -> "Bundle":
        """Return a copy with more diagnostics, by tool id; a tool with an error becomes broken."""
        broken = dict(self.broken_tools)
        for tool_id, findings in further.items():
            if tool_id in broken or has_error(findings):
                broken[tool_id] = sort([*broken.get(tool_id, ()), *findings])
        added = [finding for findings in further.values() for finding in findings]
        return replace(
            self,
            tools={name: tool for name, tool in self.tools.items() if name not in broken},
            broken_tools=broken,
            diagnostics=sort([*self.diagnostics, *added]),
        )


def load_bundle(root: Path, neighbours: ProjectNames | None = None) -> Bundle:
    """Read every manifest below `root` and check them against each other and `neighbours`."""
    names = neighbours or ProjectNames()
    listing = discover(root)
    files = [read_file(root, noun, path) for noun, path in listing.files]
    _refuse_seconds(files, "permissions", "second-catalog")
    _refuse_seconds(files, "prompts", "second-prompts")
    catalog = next((one for one in _valid(files) if isinstance(one, PermissionCatalog)), None)
    outside = _check(files, _written_permissions(files), names)
    # Collected after the checks: they add to the same documents.
    inside = (problem for file in files for problem in file.node.document.problems)
    tools, skills = _tools(files), _skills(files)
    broken_tools = _broken(
        [(tool.manifest.tool_id, tool.node) for tool in tools], names.builtin_tools
    )
    broken_skills = _broken(
        [(skill.manifest.skill_id, skill.node) for skill in skills], names.builtin_skills
    )
    return Bundle(
        tools={tool.manifest.tool_id: tool.manifest for tool in tools if not is_broken(tool.node)},
        skills={
            skill.manifest.skill_id: skill.manifest for skill in skills if not is_broken(skill.node)
        },
        broken_tools=broken_tools,
        broken_skills=broken_skills,
        every_tool=tuple(tool.manifest for tool in tools),
        permissions=catalog,
        prompts=next((one for one in _valid(files) if isinstance(one, Prompts)), None),
        schedule_files=tuple(file for file in files if file.noun == "schedule"),
        broken_nouns=frozenset(file.noun for file in files if is_broken(file.node)),
        diagnostics=sort([*listing.diagnostics, *outside, *inside]),
        tool_count=len(tools) + sum(file.noun == "tool" and not file.manifest for file in files),
        skill_count=sum(file.noun == "skill" for file in files),
    )


def read_file(root: Path, noun: str, path: str) -> ParsedManifest:
    """Read one manifest. Never raises: every problem is noted in the document."""
    what, read = _READERS[noun]
    document = _document(root, path)
    folder = path.rpartition("/")[0]
    home = ManifestFolder(folder=root / folder, shown=shown(folder) or ".")
    node = Node(document=document, home=home, what=what, value=document.value)
    if not document.is_read:
        return ParsedManifest(noun=noun, node=node)
    if not isinstance(document.value, dict):
        message = f"a manifest must be a mapping, found {described(document.value)}"
        node.refuse("yaml-not-mapping", message)
        return ParsedManifest(noun=noun, node=node)
    return ParsedManifest(noun=noun, node=node, manifest=read(node))


def is_broken(node: Node) -> bool:
    """Return whether the file of a manifest has an error."""
    return has_error(node.document.problems)


def _document(root: Path, path: str) -> Document:
    document = Document(file=(file := shown(path)))
    if escape := escape_of(root, path):
        document.problems.append(escape)
        return document
    content = read_bounded(root / path, MANIFEST_BYTES, "the manifest")
    if isinstance(content, UnreadReason):
        document.problem(content.code, content.message, _TOP)
        return document
    try:
        return parse_yaml(content.decode(), file)
    except UnicodeDecodeError as error:
        document.problem("file-encoding", f"not UTF-8 at byte {error.start}", _TOP)
        return document


def _valid(files: Iterable[ParsedManifest]) -> list[Any]:
    return [file.manifest for file in files if not is_broken(file.node)]


def _broken(named: Iterable[tuple[str, Node]], builtin: Container[str]) -> Findings:
    """Return the diagnostics of each broken id. A project cannot break the id of a built-in."""
    broken: dict[str, list[Diagnostic]] = {}
    for name, node in named:
        if name and name not in builtin and is_broken(node):
            broken.setdefault(name, []).extend(node.document.problems)
    return {name: sort(findings) for name, findings in broken.items()}


def _refuse_seconds(files: Sequence[ParsedManifest], noun: str, code: str) -> None:
    """Refuse all files of a kind that a project may have once, if it has several."""
    same_kind = [file for file in files if file.noun == noun]
    names = ", ".join(quoted(file.node.document.file) for file in same_kind)
    for file in same_kind if len(same_kind) > 1 else ():
        message = f"a project has at most one {noun} manifest; of these none is used: {names}"
        file.node.refuse(code, message)


def _written_permissions(files: Sequence[ParsedManifest]) -> frozenset[str] | None:
    """Return the ids in the catalog, even a broken one; None without a readable catalog."""
    catalogs = [file for file in files if file.noun == "permissions"]
    if not catalogs or not all(file.manifest for file in catalogs):
        return None
    return frozenset(name for file in catalogs for name in written_ids(file.node))


def _check(
    files: Sequence[ParsedManifest], permissions: frozenset[str] | None, neighbours: ProjectNames
) -> list[Diagnostic]:
    """Check references between manifests; return diagnostics about files that are not manifests."""
    skills, tools = _skills(files), _tools(files)
    duplicates = check_ids(tools, skills, neighbours)
    by_id: dict[str, ParsedSkill] = {}
    for skill in skills:
        by_id.setdefault(skill.manifest.skill_id, skill)
    declared = {tool.manifest.tool_id for tool in tools}
    known = declared | neighbours.builtin_tools | neighbours.python_tools.keys()
    references = References(known, by_id.keys() | neighbours.builtin_skills.keys(), permissions)
    for tool in tools:
        references.check_tool(tool)
        check_engine(tool, neighbours.engines)
    for skill in skills:
        references.check_skill(skill)
    check_schedules(_schedules(files), by_id.keys() | neighbours.builtin_skills.keys())
    check_cycles(by_id)
    check_script_tools(tools, by_id, neighbours)
    return [
        Diagnostic(
            code="duplicate-tool",
            message=duplicate("tool", name, places, python),
            file=python.file,
            line=python.line,
        )
        for name, places in duplicates.items()
        if (python := neighbours.python_tools.get(name))
    ]


def _tools(files: Iterable[ParsedManifest]) -> list[ParsedTool]:
    """Return all tools, inline ones included, in the order of their files."""
    tools: list[ParsedTool] = []
    for file in files:
        if isinstance(file.manifest, ToolManifest):
            tools.append(ParsedTool(manifest=file.manifest, node=file.node))
        elif isinstance(file.manifest, SkillManifest):
            tools += inline_tools(ParsedSkill(manifest=file.manifest, node=file.node))
    return tools


def _schedules(files: Iterable[ParsedManifest]) -> list[tuple[ScheduleManifest, Node]]:
    return [
        (file.manifest, file.node) for file in files if isinstance(file.manifest, ScheduleManifest)
    ]


def _skills(files: Iterable[ParsedManifest]) -> list[ParsedSkill]:
    return [
        ParsedSkill(manifest=file.manifest, node=file.node)
        for file in files
        if isinstance(file.manifest, SkillManifest)
    ]
