"""Grants that a caller brings along: those of its selected skills, and those of its agent session.

`policy` reads both. Skills add tools to what a model may call. A session restricts: its agent may
call what its definition declares, and three tools that every session has. A session refuses a call
in this order: it has finished, the tool is not granted, the agent may not ask people. Guards of
plugins come last, when nothing else refuses the call.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import ASK_USER, FINISH, SKILL_READ, SUBAGENT, Call, CallPath
from penstock.core.call_errors import CallError, NotPermitted
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import NotFound
from penstock.core.ids import TaskId
from penstock.core.profile import Profile
from penstock.engine.state import SessionState
from penstock.manifest.skill import Resource, SkillManifest, grant, list_resources, order_skills
from penstock.tools.outputs import own_copy

KEPT = 256
"""Selections whose grants are remembered."""


class Selection(Struct, frozen=True, kw_only=True):
    """What the skills selected for a task grant, merged."""

    skills: tuple[str, ...] = ()
    tools: frozenset[str] = frozenset()
    inline: frozenset[str] = frozenset()
    script_tools: frozenset[str] = frozenset()


NOTHING = Selection()


class SkillsOf(Struct, frozen=True, kw_only=True):
    """What an agent has to do with skills."""

    only: tuple[str, ...] | None = None
    """The skills it may select; None is all."""
    labels: frozenset[str] = frozenset()
    preselected: tuple[str, ...] = ()


class Skills:
    """Every skill that can be selected, by id, with the files it brings along."""

    def __init__(
        self,
        skills: Mapping[str, SkillManifest] = MappingProxyType({}),
        root: Path | None = None,
    ) -> None:
        self._root = root
        self.renew(skills)

    def renew(self, skills: Mapping[str, SkillManifest]) -> None:
        """Put others in the place of all skills."""
        self._skills = skills
        self._kept: dict[tuple[tuple[str, ...], frozenset[str]], Selection] = {}
        self._resources: dict[str, tuple[Resource, ...]] = {}
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
        """Return the files that a skill brings along; built-in skills bring none."""
        if self._root is None or not skill.file:
            return ()
        found = self._resources.get(skill.skill_id)
        if found is None:
            found = self._resources[skill.skill_id] = list_resources(self._root, skill)
        return found

    def place(self, skill: SkillManifest, resource: Resource) -> Path:
        """Return where a file of a skill lies on the disk."""
        return (self._root or Path()) / skill.folder / resource.path

    def closed(self, of: SkillsOf, profile: Profile) -> frozenset[str]:
        """Return the skills whose labels or permissions an agent and a profile lack."""
        return frozenset(each.skill_id for each in self._guarded if not _is_open(each, of, profile))

    def select(self, chosen: Iterable[str], closed: frozenset[str] = frozenset()) -> Selection:
        """Return what these skills, and all that they require, grant together.

        Those that are closed, broken or gone grant nothing.
        """
        names = tuple(dict.fromkeys(chosen))
        if not names:
            return NOTHING
        kept = self._kept.get((names, closed))
        if kept is None:
            kept = self._merged(names, closed)
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[names, closed] = kept
        return kept

    def _merged(self, names: tuple[str, ...], closed: frozenset[str]) -> Selection:
        needed = order_skills(names, self._skills)
        among = {each: self._skills[each] for each in needed if each in self._skills}
        for each in closed:
            among.pop(each, None)
        grants = grant(names, among)
        return Selection(
            skills=grants.skills,
            tools=grants.tools,
            inline=grants.inline,
            script_tools=grants.script_tools,
        )


NO_SKILLS = Skills()


class TaskSkills:
    """The skills of one task: which may be selected, and what those selected by now grant."""

    __slots__ = ("_named", "_newest", "_seen", "_state", "of", "profile", "skills")

    def __init__(
        self,
        skills: Skills,
        state: SessionState,
        of: SkillsOf,
        *,
        profile: Profile,
        named: tuple[str, ...] = (),
    ) -> None:
        self.skills = skills
        self.of = of
        self.profile = profile
        self._state = state
        self._named = named
        self._seen: tuple[str, ...] | None = None
        self._newest = NOTHING

    @property
    def selection(self) -> Selection:
        """What is selected now."""
        return self.at(self._state.selected)

    def at(self, selected: tuple[str, ...]) -> Selection:
        """Return what was granted when the session had these selected."""
        if selected is not self._seen:
            self._seen = selected
            self._newest = self._select(selected)
        return self._newest

    def visible(self) -> list[SkillManifest]:
        """Return the skills that may be selected, by id."""
        return sorted(filter(self.is_visible, self.skills), key=lambda each: each.skill_id)

    def is_visible(self, skill: SkillManifest) -> bool:
        """Whether the agent may select the skill for this profile."""
        only = self.of.only
        is_listed = only is None or skill.skill_id in only
        return is_listed and _is_open(skill, self.of, self.profile)

    def _select(self, selected: tuple[str, ...]) -> Selection:
        names = (*self.of.preselected, *selected, *self._named)
        if not names:
            return NOTHING
        found = map(self.skills.find, names)
        chosen = [each.skill_id for each in found if each is not None and self.is_visible(each)]
        return self.skills.select(chosen, self.skills.closed(self.of, self.profile))


def _is_open(skill: SkillManifest, of: SkillsOf, profile: Profile) -> bool:
    has_labels = of.labels.issuperset(skill.requires_labels)
    return has_labels and all(map(profile.holds, skill.requires_permissions))


ALWAYS = (FINISH, ASK_USER, SKILL_READ)
AUTHORING = frozenset({"agent_catalog", "agent_write", "flow_write"})
"""What flow-architect has, and the agents that it starts."""
NEVER_DECLARED = AUTHORING | {SUBAGENT}
"""What no `tools:` grants."""
ALIASES = {"find": "glob", "glob": "find"}
"""Who may call the one may call the other."""
ARCHITECT = "flow-architect"
AUTONOMOUS = "this run is autonomous"

PluginGuard = Callable[[Call], str | None]
"""Returns why it refuses a call, or None."""


class GuardedSession(Struct, frozen=True, kw_only=True):
    """What a guard of a plugin knows of the agent session whose calls it checks.

    Example:
        >>> from penstock.tools.grants import GuardedSession
        >>> session = GuardedSession(
        ...     run_id="task_1", frame="c1", agent="clerk", tools=["read"], is_autonomous=False
        ... )
        >>> "write" in session.tools
        False
    """

    run_id: TaskId
    """The run of the flow."""
    frame: CallPath
    """The place of the session in the run."""
    agent: str
    """The agent that works in it."""
    tools: Sequence[str]
    """What its model is offered."""
    is_autonomous: bool
    """Whether it may not ask a person."""


class SessionGuard(Struct, kw_only=True):
    """The grants of one agent session, and whether it has finished."""

    agent: str
    declared: Sequence[str] = ()
    """In the order of the agent's file."""
    is_architect: bool = False
    is_autonomous: bool = False
    is_interactive: bool = True
    guards: Sequence[PluginGuard] = ()
    """The first that refuses counts."""
    is_finished: bool = field(default=False)

    @property
    def tools(self) -> list[str]:
        """The ids of the tools that the model is offered; not what it could only be refused."""
        own = [each for each in self.declared if each not in NEVER_DECLARED]
        authoring = sorted(AUTHORING) if self.is_architect else []
        offered = dict.fromkeys((*own, *authoring, *ALWAYS))
        return [each for each in offered if each != ASK_USER or not self.silence]

    @property
    def granted(self) -> frozenset[str]:
        """What the model may call: also by another name than that which it is offered.

        It contains `ask_user` even if no person may be asked: the refusal then says why.
        """
        offered = (*self.tools, ASK_USER)
        return frozenset((*offered, *(ALIASES[each] for each in offered if each in ALIASES)))

    def nameable(self, visible: set[str]) -> set[str]:
        """Return what a hint may name: what is visible at the door and granted, and `finish`."""
        unasked = {ASK_USER} if self.silence else set[str]()
        granted = self.granted - unasked
        return {each for each in granted if each in visible or each == FINISH}

    def refusal(self, call: Call) -> CallError | None:
        """Return why the session may not make a call of a tool that exists; None if it may.

        The guards of plugins are not asked: they come last, when the door has nothing against it.
        """
        said = self._refusal(call.tool_id)
        return None if said is None else NotPermitted(said)

    def plugin_refusal(self, call: Call) -> CallError | None:
        """Return why a guard of a plugin refuses a call that all else allows; None if none does."""
        for guard in self.guards:
            shown = replace(call, input=own_copy(call.input))  # what runs is what was validated
            if (said := guard(shown)) is not None:
                return NotPermitted(said)
        return None

    def finish(self) -> None:
        """Take in that `finish` was called validly: nothing may be called from here on."""
        self.is_finished = True

    @property
    def silence(self) -> str:
        """Why the agent may not ask a person; empty if it may."""
        if self.is_autonomous:
            return AUTONOMOUS
        return "" if self.is_interactive else f'agent "{self.agent}" is not interactive'

    def _refusal(self, tool_id: str) -> str | None:
        if self.is_finished:
            return "finish was already called; no further tool calls."
        if tool_id in NEVER_DECLARED and not (self.is_architect and tool_id in AUTHORING):
            return f'"{tool_id}" is not granted to agent "{self.agent}".'
        if tool_id not in self.granted:
            return self._undeclared(tool_id)
        return blocked(ASK_USER, self.silence) if tool_id == ASK_USER and self.silence else None

    def _undeclared(self, tool_id: str) -> str:
        declared = ", ".join(self.declared) or "none"
        always = ", ".join(each for each in ALWAYS if each != ASK_USER or not self.silence)
        return (
            f'"{tool_id}" is not declared by agent "{self.agent}". Declared: {declared}. '
            f"Always available: {always}."
        )


def blocked(what: str, why: str) -> str:
    """Return the message for a question that is not allowed."""
    return f"{what} is blocked: {why}. Decide on your own and go on."
