"""Checks manifests against each other: duplicate and unknown ids, cycles, tools without effect.

Every place of a duplicate id gets a diagnostic that names the other places, so an author sees it in
whichever file is open. An unknown id gets the nearest known one as a suggestion; that costs a
comparison with every id, so a project gets at most 200 suggestions and each is computed once.

`check_cycles` is a depth-first search with its own stack, because a project may chain thousands of
skills and recursion would overflow; each skill is visited once, so every cycle is reported at one
edge. `check_script_tools` computes per skill what its scripts may call, and warns if a tool's own
`script_tools` have no effect when a model calls the tool there. Grants are computed once per skill
and not per tool. Shown by tests/manifest/test_references.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from penstock.core.diagnostics import nearest
from penstock.manifest.execution import ENGINES
from penstock.manifest.fields import Node, quoted
from penstock.manifest.permissions import BUILTIN
from penstock.manifest.skill import SkillGrants, SkillManifest, grant
from penstock.manifest.tool import ToolManifest

MCP = "mcp__"
"""Prefix of the ids of MCP tools."""
MAX_PLACES = 5
MAX_SUGGESTIONS = 200
"""After so many unknown ids no nearest id is suggested, because each takes time."""
MAX_SHOWN = 10
"""Ids of a cycle in a message; the middle of a longer cycle is left out."""


class Definition(Struct, frozen=True, kw_only=True):
    """The place where an id is defined."""

    file: str
    line: int

    def __str__(self) -> str:
        """Return `file:line`."""
        return f"{self.file}:{self.line}"


class ProjectNames(Struct, frozen=True, kw_only=True):
    """Names that a project has in addition to its manifests."""

    builtin_tools: frozenset[str] = frozenset()
    """Includes the tools of plugins and of the embedding program."""
    plugin_tools: frozenset[str] = frozenset()
    builtin_skills: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Built-in skills with the tools that each grants."""
    python_tools: Mapping[str, Definition] = field(default_factory=dict)
    open_tools: frozenset[str] = frozenset()
    """The tools that every script may call: global tools and direct calls."""
    engines: Sequence[str] = ENGINES
    """The engines that a tool may request."""


class ParsedTool(Struct, frozen=True, kw_only=True):
    """A tool and the mapping it was read from."""

    manifest: ToolManifest
    node: Node


class ParsedSkill(Struct, frozen=True, kw_only=True):
    """A skill and the mapping it was read from."""

    manifest: SkillManifest
    node: Node


def inline_tools(skill: ParsedSkill) -> Iterator[ParsedTool]:
    """Yield the tools that a skill defines inline."""
    definitions = skill.node.at("tool_definitions")
    items = definitions.value if isinstance(definitions.value, list) else []
    numbers = (number for number, item in enumerate(items) if isinstance(item, dict))
    for number, manifest in zip(numbers, skill.manifest.inline, strict=False):
        yield ParsedTool(manifest=manifest, node=definitions.at(number))


def check_ids(
    tools: Iterable[ParsedTool], skills: Iterable[ParsedSkill], neighbours: ProjectNames
) -> Mapping[str, list[Definition]]:
    """Report ids that are taken or duplicate; return the places of each duplicate tool."""
    named = [(tool.manifest.tool_id, tool.node.at("name")) for tool in tools]
    taken = dict.fromkeys(neighbours.builtin_tools, "a built-in tool")
    taken |= dict.fromkeys(neighbours.plugin_tools, "a tool of a plugin")
    places = _check_ids("tool", named, taken, neighbours.python_tools)
    skill_ids = [(skill.manifest.skill_id, skill.node.at("skill_id")) for skill in skills]
    _check_ids("skill", skill_ids, dict.fromkeys(neighbours.builtin_skills, "a built-in skill"), {})
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
            message = (
                f"{quoted(name)} is {taken.get(name, f'a built-in {noun}')}; choose another id"
            )
            node.refuse("builtin-collision", message)
        elif name:
            known = places.setdefault(name, [python[name]] if name in python else [])
            known.append(Definition(file=node.document.file, line=node.place.line))
    several = {
        name: sorted(definitions, key=lambda place: (place.file, place.line))
        for name, definitions in places.items()
        if len(definitions) > 1
    }
    for name, node in named:
        if name in several:
            own = Definition(file=node.document.file, line=node.place.line)
            node.refuse(f"duplicate-{noun}", duplicate(noun, name, several[name], own))
    return several


def duplicate(noun: str, name: str, places: Sequence[Definition], own: Definition) -> str:
    """Return the message at one definition of a duplicate id; it lists at most five places."""
    others = [place for place in places if place != own]
    shown = sorted([own, *others[: MAX_PLACES - 1]], key=lambda place: (place.file, place.line))
    more = len(others) - len(shown) + 1
    last = f"{more} more" if more else str(shown.pop())
    return f"{noun} {quoted(name)} is defined in {', '.join(map(str, shown))} and in {last}"


def check_engine(tool: ParsedTool, engines: Sequence[str]) -> None:
    """Report an engine that the project does not allow."""
    engine = tool.manifest.execution.engine
    if engine and engine not in engines:
        node = tool.node.at("execution", "engine")
        allowed = ", ".join(engines)
        message = f'"{node.name}" is {quoted(engine)}, and the project allows only {allowed}'
        node.refuse("engine-not-allowed", message)


class References:
    """Checks the ids that manifests name."""

    def __init__(
        self, tools: Iterable[str], skills: Iterable[str], permissions: frozenset[str] | None
    ) -> None:
        self._known = {"tool": frozenset(tools), "skill": frozenset(skills)}
        self._permissions = permissions
        self._near: dict[tuple[str, str], str | None] = {}

    def check_tool(self, tool: ParsedTool) -> None:
        """Report unknown ids in a tool."""
        self._check_tools(tool.node, ("script_tools",), frozenset())
        if tool.manifest.revert:
            self._check(tool.node.at("revert"), "tool", "revert")
        self._check_permissions(tool.node)

    def check_skill(self, skill: ParsedSkill) -> None:
        """Report unknown ids in a skill."""
        inline = frozenset(tool.tool_id for tool in skill.manifest.inline)
        self._check_tools(skill.node, ("tools", "script_tools"), inline)
        required = list(_listed(skill.node, "requires_skills"))
        _warn_doubles(required)
        for node in required:
            self._check(node, "skill", "requires_skills")
        self._check_permissions(skill.node)

    def _check_tools(self, node: Node, keys: Sequence[str], inline: frozenset[str]) -> None:
        listed = [(key, item) for key in keys for item in _listed(node, key)]
        _warn_doubles([item for _, item in listed])
        for key, item in listed:
            path = node.at(key).name
            if item.value in inline:
                message = f"{quoted(item.value)} is defined inline in this skill"
                item.refuse("inline-listed", f'{message}; remove it from "{path}"')
            elif item.value.startswith(MCP):
                message = f'{quoted(item.value)} in "{path}" names an MCP tool'
                whether = "whether it exists is known only when its server answers"
                item.warn("unverified-mcp-tool", f"{message}; {whether}")
            else:
                self._check(item, "tool", path)

    def _check(self, node: Node, noun: str, path: str) -> None:
        if node.value in self._known[noun]:
            return
        near = self._nearest(noun, node.value, self._known[noun])
        message = f'{quoted(node.value)} in "{path}" is not a {noun} of this bundle or a built-in'
        hint = near and f'did you mean "{near}"?'
        node.refuse(f"unknown-{noun}-ref", message, suggestion=hint)

    def _check_permissions(self, node: Node) -> None:
        if self._permissions is None:
            return
        for item in _listed(node, "requires_permissions"):
            if item.value in self._permissions or item.value in BUILTIN:
                continue
            near = self._nearest("permission", item.value, self._permissions)
            path = node.at("requires_permissions").name
            message = f'{quoted(item.value)} in "{path}" is not a permission of the catalog'
            hint = near and f'did you mean "{near}"?'
            item.refuse("unknown-permission", message, suggestion=hint)

    def _nearest(self, noun: str, name: str, known: frozenset[str]) -> str | None:
        if (noun, name) not in self._near:
            if len(self._near) >= MAX_SUGGESTIONS:
                return None
            self._near[noun, name] = nearest(name, known)
        return self._near[noun, name]


def _listed(node: Node, key: str) -> Iterator[Node]:
    """Yield the non-empty strings of a list."""
    listed = node.at(key)
    for number in range(len(listed.value) if isinstance(listed.value, list) else 0):
        if isinstance((item := listed.at(number)).value, str) and item.value:
            yield item


def _warn_doubles(nodes: Iterable[Node]) -> None:
    first: dict[str, Node] = {}
    for node in nodes:
        before = first.setdefault(node.value, node)
        if before is not node:
            message = f"{quoted(node.value)} is listed twice ({before.name}, {node.name})"
            node.warn("listed-twice", message)


def check_cycles(skills: Mapping[str, ParsedSkill]) -> None:
    """Report each entry of `requires_skills` that closes a cycle."""
    done: set[str] = set()
    for start in skills:
        path: dict[str, int] = {} if start in done else {start: 0}
        while path:
            name = next(reversed(path))
            number = path[name]
            required = skills[name].manifest.requires_skills
            if number == len(required):
                done.add(name)
                del path[name]
                continue
            path[name] += 1
            if required[number] in path:
                _note_cycle(skills[name], required[number], list(path))
            elif required[number] in skills and required[number] not in done:
                path[required[number]] = 0


def _note_cycle(skill: ParsedSkill, back_to: str, path: Sequence[str]) -> None:
    cycle = [*path[path.index(back_to) :], back_to]
    if len(cycle) > MAX_SHOWN:
        cycle = [*cycle[: MAX_SHOWN // 2], "…", *cycle[-MAX_SHOWN // 2 :]]
    listed = skill.node.at("requires_skills")
    node = listed.at(listed.value.index(back_to))
    node.refuse("skill-cycle", f"requires_skills makes a cycle: {' -> '.join(cycle)}")


def check_script_tools(
    tools: Sequence[ParsedTool], skills: Mapping[str, ParsedSkill], neighbours: ProjectNames
) -> None:
    """Warn of `script_tools` without effect, everywhere or where a model calls the tool."""
    with_helpers = [tool for tool in tools if tool.manifest.script_tools and tool.manifest.tool_id]
    if not with_helpers:
        return
    direct = {tool.manifest.tool_id for tool in tools if tool.manifest.direct_call}
    always = direct | neighbours.open_tools
    manifests = {name: skill.manifest for name, skill in skills.items()}
    granted = {name: grant([name], manifests, neighbours.builtin_skills) for name in manifests}
    offers = _offers(granted, manifests)
    for tool in with_helpers:
        is_hidden = False
        for skill_id, grants in offers.get(tool.manifest.tool_id, ()):
            within = grants.tools | grants.inline | grants.script_tools | always
            missing = [helper for helper in tool.manifest.script_tools if helper not in within]
            if missing:
                _warn_hidden(tool, skill_id, missing)
                is_hidden = True
        if not is_hidden and not tool.manifest.direct_call:
            _warn_unused(tool)


def _offers(
    grants: Mapping[str, SkillGrants], skills: Mapping[str, SkillManifest]
) -> Mapping[str, list[tuple[str, SkillGrants]]]:
    """Return for each tool the skills that offer it to models, with their grants."""
    offers: dict[str, list[tuple[str, SkillGrants]]] = {}
    for name, skill in skills.items():
        for tool_id in dict.fromkeys((*skill.tools, *(tool.tool_id for tool in skill.inline))):
            offers.setdefault(tool_id, []).append((name, grants[name]))
    return offers


def _warn_hidden(tool: ParsedTool, skill_id: str, missing: Sequence[str]) -> None:
    message = (
        f'{_name(tool.manifest)} can be called by a model in skill "{skill_id}", where its own'
    )
    ids = ", ".join(f'"{each}"' for each in dict.fromkeys(missing))
    add = f'"script_tools" do not apply; add {ids} to the skill\'s "script_tools"'
    listed = tool.node.at("script_tools")
    listed.warn("script-tools-hidden", f"{message} {add}", at=listed.key_place)


def _warn_unused(tool: ParsedTool) -> None:
    message = f'"script_tools" of {_name(tool.manifest)} have no effect'
    why = 'they apply only to direct calls, and "direct_call" is not true'
    listed = tool.node.at("script_tools")
    listed.warn("script-tools-unused", f"{message}: {why}", at=listed.key_place)


def _name(tool: ToolManifest) -> str:
    return f'"{tool.tool_id}"'
