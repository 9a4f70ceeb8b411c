"""What manifests say about each other: ids that are taken, and ids that name nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from penstock.core.diagnostics import nearest
from penstock.manifest.execution import ENGINES
from penstock.manifest.fields import Node, quoted
from penstock.manifest.permissions import BUILTIN
from penstock.manifest.skill import SkillManifest
from penstock.manifest.tool import ToolManifest

MCP = "mcp__"
"""What the ids of tools of MCP servers begin with."""
MOST_PLACES = 5
MOST_SUGGESTIONS = 200
"""A project with more unknown ids than that is told no nearest ones; each takes time."""


class Definition(Struct, frozen=True, kw_only=True):
    """Where something is defined."""

    file: str
    line: int

    def __str__(self) -> str:
        """Return `file:line`."""
        return f"{self.file}:{self.line}"


class ProjectNames(Struct, frozen=True, kw_only=True):
    """What a project has besides its manifests."""

    builtin_tools: frozenset[str] = frozenset()
    """With those that plugins and the program bring."""
    plugin_tools: frozenset[str] = frozenset()
    builtin_skills: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """With the tools that each grants."""
    python_tools: Mapping[str, Definition] = field(default_factory=dict)
    open_tools: frozenset[str] = frozenset()
    """Of these tools, those that every script may call: global ones, and direct calls."""
    engines: Sequence[str] = ENGINES
    """Those that a tool may wish for."""


class ParsedTool(Struct, frozen=True, kw_only=True):
    """A tool and the mapping it was read from."""

    manifest: ToolManifest
    node: Node


class ParsedSkill(Struct, frozen=True, kw_only=True):
    """A skill and the mapping it was read from."""

    manifest: SkillManifest
    node: Node


def inline_tools(skill: ParsedSkill) -> Iterator[ParsedTool]:
    """Yield the tools that a skill defines."""
    definitions = skill.node.at("tool_definitions")
    items = definitions.value if isinstance(definitions.value, list) else []
    numbers = (number for number, each in enumerate(items) if isinstance(each, dict))
    for number, manifest in zip(numbers, skill.manifest.inline, strict=False):
        yield ParsedTool(manifest=manifest, node=definitions.at(number))


def check_ids(
    tools: Iterable[ParsedTool], skills: Iterable[ParsedSkill], neighbours: ProjectNames
) -> Mapping[str, list[Definition]]:
    """Note ids that are taken; return where each tool is defined that has several places."""
    named = [(each.manifest.tool_id, each.node.at("name")) for each in tools]
    taken = dict.fromkeys(neighbours.builtin_tools, "a built-in tool")
    taken |= dict.fromkeys(neighbours.plugin_tools, "a tool of a plugin")
    places = _check_ids("tool", named, taken, neighbours.python_tools)
    own = [(each.manifest.skill_id, each.node.at("skill_id")) for each in skills]
    _check_ids("skill", own, dict.fromkeys(neighbours.builtin_skills, "a built-in skill"), {})
    return places


def _check_ids(
    noun: str,
    named: Sequence[tuple[str, Node]],
    taken: Mapping[str, str],
    python: Mapping[str, Definition],
) -> Mapping[str, list[Definition]]:
    places: dict[str, list[Definition]] = {}
    for name, node in named:
        if name in taken or name.startswith(MCP):
            said = f"{quoted(name)} is {taken.get(name, f'a built-in {noun}')}; choose another id"
            node.refuse("builtin-collision", said)
        elif name:
            known = places.setdefault(name, [python[name]] if name in python else [])
            known.append(Definition(file=node.document.file, line=node.place.line))
    several = {
        name: sorted(each, key=lambda place: (place.file, place.line))
        for name, each in places.items()
        if len(each) > 1
    }
    for name, node in named:
        if name in several:
            own = Definition(file=node.document.file, line=node.place.line)
            node.refuse(f"duplicate-{noun}", duplicate(noun, name, several[name], own))
    return several


def duplicate(noun: str, name: str, places: Sequence[Definition], own: Definition) -> str:
    """Return what is said at one of the places where an id is defined: all of them, if few."""
    others = [each for each in places if each != own]
    shown = sorted([own, *others[: MOST_PLACES - 1]], key=lambda each: (each.file, each.line))
    more = len(others) - len(shown) + 1
    last = f"{more} more" if more else str(shown.pop())
    return f"{noun} {quoted(name)} is defined in {', '.join(map(str, shown))} and in {last}"


def check_engine(tool: ParsedTool, engines: Sequence[str]) -> None:
    """Note a wish for an engine that the project does not allow."""
    wish = tool.manifest.execution.engine
    if wish and wish not in engines:
        node = tool.node.at("execution", "engine")
        said = f'"{node.name}" is {quoted(wish)}, and the project allows only {", ".join(engines)}'
        node.refuse("engine-not-allowed", said)


class References:
    """Checks the ids that manifests name."""

    def __init__(
        self, tools: Iterable[str], skills: Iterable[str], permissions: frozenset[str] | None
    ) -> None:
        self._known = {"tool": frozenset(tools), "skill": frozenset(skills)}
        self._permissions = permissions
        self._near: dict[tuple[str, str], str | None] = {}

    def check_tool(self, tool: ParsedTool) -> None:
        """Note what a tool names in vain."""
        self._check_tools(tool.node, ("script_tools",), frozenset())
        self._check_permissions(tool.node)

    def check_skill(self, skill: ParsedSkill) -> None:
        """Note what a skill names in vain; of its inline tools, too."""
        inline = frozenset(each.tool_id for each in skill.manifest.inline)
        self._check_tools(skill.node, ("tools", "script_tools"), inline)
        required = list(_listed(skill.node, "requires_skills"))
        _warn_doubles(required)
        for node in required:
            self._check(node, "skill", "requires_skills")
        self._check_permissions(skill.node)

    def _check_tools(self, node: Node, keys: Sequence[str], inline: frozenset[str]) -> None:
        listed = [(key, each) for key in keys for each in _listed(node, key)]
        _warn_doubles([each for _, each in listed])
        for key, each in listed:
            path = node.at(key).name
            if each.value in inline:
                said = f"{quoted(each.value)} is defined inline in this skill"
                each.refuse("inline-listed", f'{said}; remove it from "{path}"')
            elif each.value.startswith(MCP):
                said = f'{quoted(each.value)} in "{path}" names an MCP tool'
                whether = "whether it exists is known only when its server answers"
                each.warn("unverified-mcp-tool", f"{said}; {whether}")
            else:
                self._check(each, "tool", path)

    def _check(self, node: Node, noun: str, path: str) -> None:
        if node.value in self._known[noun]:
            return
        near = self._nearest(noun, node.value, self._known[noun])
        said = f'{quoted(node.value)} in "{path}" is not a {noun} of this bundle or a built-in'
        hint = near and f'did you mean "{near}"?'
        node.refuse(f"unknown-{noun}-ref", said, suggestion=hint)

    def _check_permissions(self, node: Node) -> None:
        if self._permissions is None:
            return
        for each in _listed(node, "requires_permissions"):
            if each.value in self._permissions or each.value in BUILTIN:
                continue
            near = self._nearest("permission", each.value, self._permissions)
            path = node.at("requires_permissions").name
            said = f'{quoted(each.value)} in "{path}" is not a permission of the catalog'
            hint = near and f'did you mean "{near}"?'
            each.refuse("unknown-permission", said, suggestion=hint)

    def _nearest(self, noun: str, name: str, known: frozenset[str]) -> str | None:
        if (noun, name) not in self._near:
            if len(self._near) >= MOST_SUGGESTIONS:
                return None
            self._near[noun, name] = nearest(name, known)
        return self._near[noun, name]


def _listed(node: Node, key: str) -> Iterator[Node]:
    """Yield the texts of a list."""
    listed = node.at(key)
    for number in range(len(listed.value) if isinstance(listed.value, list) else 0):
        if isinstance((each := listed.at(number)).value, str) and each.value:
            yield each


def _warn_doubles(nodes: Iterable[Node]) -> None:
    first: dict[str, Node] = {}
    for each in nodes:
        before = first.setdefault(each.value, each)
        if before is not each:
            said = f"{quoted(each.value)} is listed twice ({before.name}, {each.name})"
            each.warn("listed-twice", said)
