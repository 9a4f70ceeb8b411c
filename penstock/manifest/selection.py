"""What selected skills grant: the skills that they require, and the tools of all of them."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from penstock.manifest.skill import SkillManifest


class SkillGrants(Struct, frozen=True, kw_only=True):
    """The merged grants of selected skills."""

    skills: tuple[str, ...] = ()
    """All selected skills, in order."""
    tools: frozenset[str] = frozenset()
    inline: frozenset[str] = frozenset()
    script_tools: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    """Skills that were named or required but do not exist or are broken."""


def order_skills(chosen: Iterable[str], skills: Mapping[str, SkillManifest]) -> tuple[str, ...]:
    """Return the skills and those that they require: depth first, in listed order, each once."""
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
    builtins = builtin or {}
    ordered = order_skills(chosen, skills)
    own = [skills[name] for name in ordered if name in skills]
    builtin_tools = [
        tool for name in ordered if name not in skills for tool in builtins.get(name, ())
    ]
    return SkillGrants(
        skills=tuple(name for name in ordered if name in skills or name in builtins),
        tools=frozenset(builtin_tools).union(*(skill.tools for skill in own)),
        inline=frozenset(tool.tool_id for skill in own for tool in skill.inline),
        script_tools=frozenset().union(*(skill.script_tools for skill in own)),
        missing=tuple(name for name in ordered if name not in skills and name not in builtins),
    )
