"""The skills of a project, and the grants of those that are selected for a task.

Selected skills add tools to what a model may call; `policy` reads their merged grants.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct

from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import NotFound
from penstock.core.profile import Profile
from penstock.engine.dialogue import Dialogue
from penstock.engine.session_state import SessionState
from penstock.manifest.skill import Resource, SkillManifest, grant, list_resources, order_skills

T = TypeVar("T")
KEPT = 256
"""Most selections whose merged grants are cached."""


class Selection(Struct, frozen=True, kw_only=True):
    """The merged grants of the skills that are selected for a task."""

    skills: tuple[str, ...] = ()
    tools: frozenset[str] = frozenset()
    inline: frozenset[str] = frozenset()
    script_tools: frozenset[str] = frozenset()


NOTHING = Selection()


class SkillChoice(Struct, frozen=True, kw_only=True):
    """Which skills an agent may select."""

    only: tuple[str, ...] | None = None
    """Ids of the skills that it may select; None means all."""
    labels: frozenset[str] = frozenset()
    preselected: tuple[str, ...] = ()


class Skills:
    """All skills of a project by id, with their files."""

    def __init__(
        self,
        skills: Mapping[str, SkillManifest] = MappingProxyType({}),
        root: Path | None = None,
    ) -> None:
        self._root = root
        self.renew(skills)

    def renew(self, skills: Mapping[str, SkillManifest]) -> None:
        """Replace all skills."""
        self._skills = skills
        self._kept: dict[tuple[tuple[str, ...], frozenset[str]], Selection] = {}
        self._resources: dict[str, tuple[Resource, ...]] = {}
        self._added: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
        self._guarded = [
            each for each in skills.values() if each.requires_labels or each.requires_permissions
        ]

    def __iter__(self) -> Iterator[SkillManifest]:
        """Yield the skills."""
        return iter(self._skills.values())

    def find(self, skill_id: str) -> SkillManifest | None:
        """Return the skill, or None."""
        return self._skills.get(skill_id)

    def get(self, skill_id: str) -> SkillManifest:
        """Return the skill, or raise NotFound with the nearest name."""
        if skill := self._skills.get(skill_id):
            return skill
        hint = did_you_mean(skill_id, self._skills)
        raise NotFound(f"There is no skill {skill_id!r}.{hint}")

    def resources(self, skill: SkillManifest) -> tuple[Resource, ...]:
        """Return the files of a skill. Built-in skills have none."""
        if self._root is None or not skill.file:
            return ()
        resources = self._resources.get(skill.skill_id)
        if resources is None:
            resources = self._resources[skill.skill_id] = list_resources(self._root, skill)
        return resources

    def place(self, skill: SkillManifest, resource: Resource) -> Path:
        """Return the path of a skill's file on disk."""
        return (self._root or Path()) / skill.folder / resource.path

    def closed(self, of: SkillChoice, profile: Profile) -> frozenset[str]:
        """Return the skills whose labels an agent lacks, or whose permissions a profile lacks."""
        return frozenset(each.skill_id for each in self._guarded if not _is_open(each, of, profile))

    def select(self, chosen: Iterable[str], closed: frozenset[str] = frozenset()) -> Selection:
        """Return the merged grants of these skills and of all skills that they require.

        Skills that are closed, broken or deleted grant nothing.
        """
        names = tuple(dict.fromkeys(chosen))
        if not names:
            return NOTHING
        kept = self._kept.get((names, closed))
        if kept is None:
            kept = self._merged(names, closed)
            # A call asks for the grants of its task repeatedly. The keys come from callers,
            # so the cache is bounded; it refills from one miss, so it needs no order.
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[names, closed] = kept
        return kept

    def added_tools(self, tools: Mapping[str, T]) -> Mapping[str, T]:
        """Return those of the project's tools that a skill can add. Computed once for a project."""
        if self._added is None or self._added[0] is not tools:
            grants = [self._merged((skill_id,), frozenset()) for skill_id in self._skills]
            ids = frozenset[str]().union(
                *(each.tools | each.inline | each.script_tools for each in grants)
            )
            added = {tool_id: tool for tool_id, tool in tools.items() if tool_id in ids}
            self._added = (tools, added)
        return self._added[1]

    def _merged(self, names: tuple[str, ...], closed: frozenset[str]) -> Selection:
        needed = order_skills(names, self._skills)
        # Closed skills are removed after the requirements are resolved: a skill that requires a
        # closed one is granted without it.
        allowed = {each: self._skills[each] for each in needed if each in self._skills}
        for skill_id in closed:
            allowed.pop(skill_id, None)
        grants = grant(names, allowed)
        return Selection(
            skills=grants.skills,
            tools=grants.tools,
            inline=grants.inline,
            script_tools=grants.script_tools,
        )


NO_SKILLS = Skills()


class TaskSkills(Struct, eq=False):
    """The skills of one task: those that may be selected, and the grants of the selected ones."""

    skills: Skills
    state: SessionState | Dialogue
    choice: Callable[[], SkillChoice]
    """Returns which skills the agent may select. It is called when a skill matters: a direct call
    that makes no call itself needs neither its agent nor its skills."""
    profile: Profile
    named: tuple[str, ...] = ()
    """Skills that the request selects in addition to the session's."""
    _seen: tuple[str, ...] | None = None
    _newest: Selection = NOTHING

    @property
    def selection(self) -> Selection:
        """The grants of the skills that are selected now."""
        return self.at(self.state.selected)

    def at(self, selected: tuple[str, ...]) -> Selection:
        """Return the grants of these skills, selected in the session."""
        # The state replaces the tuple when a selection changes, so identity tells if it did.
        if selected is not self._seen:
            self._seen = selected
            self._newest = self._select(selected)
        return self._newest

    def untold(self, selected: tuple[str, ...], told: tuple[str, ...]) -> Selection:
        """Return the grants without the skills that the messages have, which stay selected."""
        rest = tuple([each for each in selected if each not in told])
        return self._select(rest)

    def visible(self) -> list[SkillManifest]:
        """Return the skills that may be selected, sorted by id."""
        return sorted(filter(self.is_visible, self.skills), key=lambda each: each.skill_id)

    def is_visible(self, skill: SkillManifest) -> bool:
        """Whether the agent may select the skill for this profile."""
        of = self.choice()
        is_listed = of.only is None or skill.skill_id in of.only
        return is_listed and _is_open(skill, of, self.profile)

    def _select(self, selected: tuple[str, ...]) -> Selection:
        of = self.choice()
        names = (*of.preselected, *selected, *self.named)
        if not names:
            return NOTHING
        skills = map(self.skills.find, names)
        chosen = [each.skill_id for each in skills if each is not None and self.is_visible(each)]
        return self.skills.select(chosen, self.skills.closed(of, self.profile))


def _is_open(skill: SkillManifest, of: SkillChoice, profile: Profile) -> bool:
    has_labels = of.labels.issuperset(skill.requires_labels)
    return has_labels and all(map(profile.holds, skill.requires_permissions))
