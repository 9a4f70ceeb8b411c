"""The skills of a project: who may select which, and what those that are selected grant."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import NotFound
from penstock.core.profile import Profile
from penstock.manifest.selection import grant
from penstock.manifest.skill import SkillManifest
from penstock.tools.policy import NOTHING, Selection

KEPT = 256
"""Selections whose grants are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillsOf:
    """What an agent has to do with skills."""

    only: tuple[str, ...] | None = None
    """The skills it may select; None is all."""
    labels: frozenset[str] = frozenset()
    preselected: tuple[str, ...] = ()


class Skills:
    """Every skill that can be selected, by id."""

    def __init__(self, skills: Mapping[str, SkillManifest] = MappingProxyType({})) -> None:
        self._skills = skills
        self._kept: dict[tuple[str, ...], Selection] = {}

    def __iter__(self) -> Iterator[SkillManifest]:
        """Yield the skills."""
        return iter(self._skills.values())

    def get(self, skill_id: str) -> SkillManifest:
        """Return the skill, or raise NotFound with the nearest name."""
        if skill := self._skills.get(skill_id):
            return skill
        hint = did_you_mean(skill_id, self._skills)
        raise NotFound(f"There is no skill {skill_id!r}.{hint}")

    def visible(self, of: SkillsOf, profile: Profile) -> list[SkillManifest]:
        """Return the skills that an agent may select for a profile."""
        return [each for each in self if _is_visible(each, of, profile)]

    def select(self, chosen: Iterable[str]) -> Selection:
        """Return what these skills, and all that they require, grant together."""
        names = tuple(dict.fromkeys(chosen))
        if not names:
            return NOTHING
        kept = self._kept.get(names)
        if kept is None:
            grants = grant(names, self._skills)
            kept = Selection(
                skills=grants.skills,
                tools=grants.tools,
                inline=grants.inline,
                script_tools=grants.script_tools,
            )
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[names] = kept
        return kept

    def instructions(self, selection: Selection) -> str:
        """Return what the selected skills add to the prompt."""
        found = (self._skills[each] for each in selection.skills if each in self._skills)
        return "\n\n".join(f"## Skill: {each.name}\n\n{each.instruction}" for each in found)


NO_SKILLS = Skills()


def _is_visible(skill: SkillManifest, of: SkillsOf, profile: Profile) -> bool:
    is_listed = of.only is None or skill.skill_id in of.only
    has_labels = of.labels.issuperset(skill.requires_labels)
    return is_listed and has_labels and all(map(profile.holds, skill.requires_permissions))
