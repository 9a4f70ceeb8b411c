"""What skills and tools make of each other: cycles, and helpers that nobody could call."""

from collections.abc import Mapping, Sequence

from penstock.manifest.references import ParsedSkill, ParsedTool, ProjectNames
from penstock.manifest.selection import SkillGrants, grant
from penstock.manifest.skill import SkillManifest
from penstock.manifest.tool import ToolManifest

MOST_SHOWN = 10
"""Of a longer cycle the middle is left out."""


def check_cycles(skills: Mapping[str, ParsedSkill]) -> None:
    """Note each entry of `requires_skills` that closes a cycle."""
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
    """Warn of `script_tools` that have no effect, or none where a model calls the tool."""
    with_helpers = [each for each in tools if each.manifest.script_tools and each.manifest.tool_id]
    if not with_helpers:
        return
    direct = {each.manifest.tool_id for each in tools if each.manifest.direct_call}
    always = direct | neighbours.open_tools
    manifests = {name: each.manifest for name, each in skills.items()}
    granted = {name: grant([name], manifests, neighbours.builtin_skills) for name in manifests}
    offers = _offers(granted, manifests)
    for tool in with_helpers:
        is_hidden = False
        for skill_id, grants in offers.get(tool.manifest.tool_id, ()):
            within = grants.tools | grants.inline | grants.script_tools | always
            missing = [each for each in tool.manifest.script_tools if each not in within]
            if missing:
                _warn_hidden(tool, skill_id, missing)
                is_hidden = True
        if not is_hidden and not tool.manifest.direct_call:
            _warn_unused(tool)


def _offers(
    grants: Mapping[str, SkillGrants], skills: Mapping[str, SkillManifest]
) -> Mapping[str, list[tuple[str, SkillGrants]]]:
    """Return, for each tool, the skills that offer it to models, and what these grant."""
    offers: dict[str, list[tuple[str, SkillGrants]]] = {}
    for name, skill in skills.items():
        for tool_id in dict.fromkeys((*skill.tools, *(each.tool_id for each in skill.inline))):
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
