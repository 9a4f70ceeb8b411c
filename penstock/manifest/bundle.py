"""All manifests of a project, checked together; what is broken is known, and takes no part."""

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic, has_error, sort
from penstock.manifest.discover import discover
from penstock.manifest.fields import Node, quoted
from penstock.manifest.file import ParsedManifest, read_file
from penstock.manifest.permissions import PermissionCatalog, written_ids
from penstock.manifest.prompts import Prompts
from penstock.manifest.reachability import check_cycles, check_script_tools
from penstock.manifest.references import (
    ParsedSkill,
    ParsedTool,
    ProjectNames,
    References,
    check_engine,
    check_ids,
    duplicate,
    inline_tools,
)
from penstock.manifest.skill import SkillManifest
from penstock.manifest.tool import ToolManifest

Findings = Mapping[str, Sequence[Diagnostic]]
"""By the id of what they break."""


class Bundle(Struct, frozen=True, kw_only=True):
    """Everything that the manifests of a project say."""

    tools: Mapping[str, ToolManifest] = field(default_factory=dict)
    """Those that can be called, by id; inline ones, too."""
    skills: Mapping[str, SkillManifest] = field(default_factory=dict)
    """Those that can be selected, by id."""
    broken_tools: Findings = field(default_factory=dict)
    """Those that exist and cannot be called, with what is wrong."""
    broken_skills: Findings = field(default_factory=dict)
    every_tool: Sequence[ToolManifest] = ()
    """The broken ones too, as far as they can be read; a default stands for what is wrong."""
    permissions: PermissionCatalog | None = None
    """None is: every id is allowed."""
    prompts: Prompts | None = None
    broken_nouns: frozenset[str] = frozenset()
    """What a project has one of, such as `prompts`, and is there with something wrong in it."""
    diagnostics: Sequence[Diagnostic] = ()
    """Sorted; of what is broken, too."""
    tool_count: int = 0
    """Broken ones included, also those whose id could not be read."""
    skill_count: int = 0
    reached: frozenset[str] = frozenset()
    """The files of the project that its scripts are made of, or would be if they were there."""

    @property
    def named_permissions(self) -> frozenset[str]:
        """Return every permission that tools and skills require, or the catalog has."""
        tools = (each.requires_permissions for each in self.tools.values())
        skills = (each.requires_permissions for each in self.skills.values())
        known = self.permissions.ids if self.permissions else frozenset()
        return known.union(*tools, *skills)

    def with_findings(self, found: Findings) -> "Bundle":
        """Return the bundle with more findings, by tool; a tool with an error is broken."""
        broken = dict(self.broken_tools)
        for tool_id, findings in found.items():
            if tool_id in broken or has_error(findings):
                broken[tool_id] = sort([*broken.get(tool_id, ()), *findings])
        every = [each for findings in found.values() for each in findings]
        return replace(
            self,
            tools={name: each for name, each in self.tools.items() if name not in broken},
            broken_tools=broken,
            diagnostics=sort([*self.diagnostics, *every]),
        )


def load_bundle(root: Path, neighbours: ProjectNames | None = None) -> Bundle:
    """Read every manifest below a folder, and check what they say about each other."""
    beside = neighbours or ProjectNames()
    found = discover(root)
    files = [read_file(root, noun, path) for noun, path in found.files]
    _refuse_seconds(files, "permissions", "second-catalog")
    _refuse_seconds(files, "prompts", "second-prompts")
    catalog = next((one for one in _whole(files) if isinstance(one, PermissionCatalog)), None)
    outside = _check(files, _written_permissions(files), beside)
    noted = (each for file in files for each in file.node.document.problems)
    tools, skills = _tools(files), _skills(files)
    broken_tools = _broken(
        [(each.manifest.tool_id, each.node) for each in tools], beside.builtin_tools
    )
    broken_skills = _broken(
        [(each.manifest.skill_id, each.node) for each in skills], beside.builtin_skills
    )
    return Bundle(
        tools={each.manifest.tool_id: each.manifest for each in tools if not is_broken(each.node)},
        skills={
            each.manifest.skill_id: each.manifest for each in skills if not is_broken(each.node)
        },
        broken_tools=broken_tools,
        broken_skills=broken_skills,
        every_tool=tuple(each.manifest for each in tools),
        permissions=catalog,
        prompts=next((one for one in _whole(files) if isinstance(one, Prompts)), None),
        broken_nouns=frozenset(each.noun for each in files if is_broken(each.node)),
        diagnostics=sort([*found.diagnostics, *outside, *noted]),
        tool_count=len(tools) + sum(each.noun == "tool" and not each.manifest for each in files),
        skill_count=sum(each.noun == "skill" for each in files),
    )


def is_broken(node: Node) -> bool:
    """Whether there is an error in the file of a manifest."""
    return has_error(node.document.problems)


def _whole(files: Iterable[ParsedManifest]) -> list[Any]:
    return [each.manifest for each in files if not is_broken(each.node)]


def _broken(named: Iterable[tuple[str, Node]], taken: Container[str]) -> Findings:
    """Return what is wrong with each id; of a built-in one nothing is."""
    broken: dict[str, list[Diagnostic]] = {}
    for name, node in named:
        if name and name not in taken and is_broken(node):
            broken.setdefault(name, []).extend(node.document.problems)
    return {name: sort(findings) for name, findings in broken.items()}


def _refuse_seconds(files: Sequence[ParsedManifest], noun: str, code: str) -> None:
    """Note that there are several of what a project has one of."""
    own = [each for each in files if each.noun == noun]
    names = ", ".join(quoted(each.node.document.file) for each in own)
    for each in own if len(own) > 1 else ():
        said = f"a project has at most one {noun} manifest; of these none is used: {names}"
        each.node.refuse(code, said)


def _written_permissions(files: Sequence[ParsedManifest]) -> frozenset[str] | None:
    """Return what the catalog names, also if it is broken; None without one that can be read."""
    own = [each for each in files if each.noun == "permissions"]
    if not own or not all(each.manifest for each in own):
        return None
    return frozenset(name for each in own for name in written_ids(each.node))


def _check(
    files: Sequence[ParsedManifest], permissions: frozenset[str] | None, neighbours: ProjectNames
) -> list[Diagnostic]:
    """Note what does not go together; return what is wrong outside of manifests."""
    skills, tools = _skills(files), _tools(files)
    several = check_ids(tools, skills, neighbours)
    by_id: dict[str, ParsedSkill] = {}
    for skill in skills:
        by_id.setdefault(skill.manifest.skill_id, skill)
    own = {each.manifest.tool_id for each in tools}
    known = own | neighbours.builtin_tools | neighbours.python_tools.keys()
    references = References(known, by_id.keys() | neighbours.builtin_skills.keys(), permissions)
    for tool in tools:
        references.check_tool(tool)
        check_engine(tool, neighbours.engines)
    for skill in skills:
        references.check_skill(skill)
    check_cycles(by_id)
    check_script_tools(tools, by_id, neighbours)
    return [
        Diagnostic(
            code="duplicate-tool",
            message=duplicate("tool", name, places, python),
            file=python.file,
            line=python.line,
        )
        for name, places in several.items()
        if (python := neighbours.python_tools.get(name))
    ]


def _tools(files: Iterable[ParsedManifest]) -> list[ParsedTool]:
    """Return the tools, those that skills define among them, in the order of their files."""
    found: list[ParsedTool] = []
    for each in files:
        if isinstance(each.manifest, ToolManifest):
            found.append(ParsedTool(manifest=each.manifest, node=each.node))
        elif isinstance(each.manifest, SkillManifest):
            found += inline_tools(ParsedSkill(manifest=each.manifest, node=each.node))
    return found


def _skills(files: Iterable[ParsedManifest]) -> list[ParsedSkill]:
    return [
        ParsedSkill(manifest=each.manifest, node=each.node)
        for each in files
        if isinstance(each.manifest, SkillManifest)
    ]
