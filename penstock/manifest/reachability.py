"""Checks the graph of skills and tools: cycles of skills, and helper tools that cannot be called.

`check_cycles` is a depth-first search with its own stack, because a project may chain thousands of
skills and recursion would overflow; each skill is visited once, so every cycle is reported at one
edge. `check_script_tools` computes per skill what its scripts may call, and warns if a tool's own
`script_tools` have no effect when a model calls the tool there. Grants are computed once per skill
and not per tool. Shown by tests/manifest/test_reachability.py.
"""

from collections.abc import Mapping, Sequence

from penstock.manifest.references import ParsedSkill, ParsedTool, ProjectNames
from penstock.manifest.selection import SkillGrants, grant
from penstock.manifest.skill import SkillManifest
from penstock.manifest.tool import ToolManifest

MOST_SHOWN = 10
"""The middle of a longer cycle is left out of the message."""


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
    if len(cycle) > MOST_SHOWN:
        cycle = [*cycle[: MOST_SHOWN // 2], "…", *cycle[-MOST_SHOWN // 2 :]]
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
    said = f'{_name(tool.manifest)} can be called by a model in skill "{skill_id}", where its own'
    ids = ", ".join(f'"{each}"' for each in dict.fromkeys(missing))
    add = f'"script_tools" do not apply; add {ids} to the skill\'s "script_tools"'
    listed = tool.node.at("script_tools")
    listed.warn("script-tools-hidden", f"{said} {add}", at=listed.key_place)


def _warn_unused(tool: ParsedTool) -> None:
    said = f'"script_tools" of {_name(tool.manifest)} have no effect'
    why = 'they apply only to direct calls, and "direct_call" is not true'
    listed = tool.node.at("script_tools")
    listed.warn("script-tools-unused", f"{said}: {why}", at=listed.key_place)


def _name(tool: ToolManifest) -> str:
    return f'"{tool.tool_id}"'
