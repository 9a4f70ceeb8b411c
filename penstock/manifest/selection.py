"""What comes with a skill: the skills it requires, and the tools that all of them grant."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from penstock.manifest.skill import SkillManifest


class SkillGrants(Struct, frozen=True, kw_only=True):
    """What some selected skills grant, merged."""

    skills: tuple[str, ...] = ()
    """All that are selected, in their order."""
    tools: frozenset[str] = frozenset()
    inline: frozenset[str] = frozenset()
    script_tools: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    """Named or required, but there is no such skill, or it is broken."""


def order_skills(chosen: Iterable[str], skills: Mapping[str, SkillManifest]) -> tuple[str, ...]:
    """Return the skills and what they require: depth first, in the listed order, each once."""
    ordered: dict[str, None] = {}
    waiting = list(chosen)[::-1]
    while waiting:
        skill_id = waiting.pop()
        if skill_id in ordered:
            continue
        ordered[skill_id] = None
        if skill := skills.get(skill_id):
            waiting += reversed(skill.requires_skills)
    return tuple(ordered)


def grant(
    chosen: Iterable[str],
    skills: Mapping[str, SkillManifest],
    builtin: Mapping[str, Sequence[str]] | None = None,
) -> SkillGrants:
    """Return what the chosen skills grant; `builtin` are the tools of each built-in skill."""
    given = builtin or {}
    ordered = order_skills(chosen, skills)
    found = [skills[each] for each in ordered if each in skills]
    built = [tool for each in ordered if each not in skills for tool in given.get(each, ())]
    return SkillGrants(
        skills=tuple(each for each in ordered if each in skills or each in given),
        tools=frozenset(built).union(*(each.tools for each in found)),
        inline=frozenset(tool.tool_id for each in found for tool in each.inline),
        script_tools=frozenset().union(*(each.script_tools for each in found)),
        missing=tuple(each for each in ordered if each not in skills and each not in given),
    )
