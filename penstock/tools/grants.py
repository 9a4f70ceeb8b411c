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
"""Most selections whose merged grants are cached."""


class Selection(Struct, frozen=True, kw_only=True):
    """The merged grants of the skills that are selected for a task."""

    skills: tuple[str, ...] = ()
    tools: frozenset[str] = frozenset()
    inline: frozenset[str] = frozenset()
    script_tools: frozenset[str] = frozenset()


NOTHING = Selection()


class SkillsOf(Struct, frozen=True, kw_only=True):
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

    def closed(self, of: SkillsOf, profile: Profile) -> frozenset[str]:
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
            # A call asks for the grants of its task again and again. The keys come from callers,
            # so the cache is bounded; it refills from one miss, so it needs no order.
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[names, closed] = kept
        return kept

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


class TaskSkills:
    """The skills of one task: those that may be selected, and the grants of the selected ones."""

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
        """The grants of the skills that are selected now."""
        return self.at(self._state.selected)

    def at(self, selected: tuple[str, ...]) -> Selection:
        """Return the grants of these skills, selected in the session."""
        # The state replaces the tuple when a selection changes, so identity tells if it did.
        if selected is not self._seen:
            self._seen = selected
            self._newest = self._select(selected)
        return self._newest

    def visible(self) -> list[SkillManifest]:
        """Return the skills that may be selected, sorted by id."""
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
        skills = map(self.skills.find, names)
        chosen = [each.skill_id for each in skills if each is not None and self.is_visible(each)]
        return self.skills.select(chosen, self.skills.closed(self.of, self.profile))


def _is_open(skill: SkillManifest, of: SkillsOf, profile: Profile) -> bool:
    has_labels = of.labels.issuperset(skill.requires_labels)
    return has_labels and all(map(profile.holds, skill.requires_permissions))


ALWAYS = (FINISH, ASK_USER, SKILL_READ)
AUTHORING = frozenset({"agent_catalog", "agent_write", "flow_write"})
"""Tools of flow-architect, and of the agents that it starts."""
NEVER_DECLARED = AUTHORING | {SUBAGENT}
"""Tools that no `tools:` list can grant."""
ALIASES = {"find": "glob", "glob": "find"}
"""Tool aliases. Permission for one name grants the other."""
ARCHITECT = "flow-architect"
AUTONOMOUS = "this run is autonomous"

PluginGuard = Callable[[Call], str | None]
"""Returns why it refuses a call, or None."""


class GuardedSession(Struct, frozen=True, kw_only=True):
    """The agent session whose calls a plugin's guard checks.

    Example:
        >>> from penstock.tools.grants import GuardedSession
        >>> session = GuardedSession(
        ...     run_id="task_1", frame="c1", agent="clerk", tools=["read"], is_autonomous=False
        ... )
        >>> "write" in session.tools
        False
    """

    run_id: TaskId
    """The task of the flow's run."""
    frame: CallPath
    """The path of the session in the run."""
    agent: str
    """The agent of the session."""
    tools: Sequence[str]
    """Ids of the tools that its model is offered."""
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
    """Guards of plugins, asked in this order until one refuses."""
    is_finished: bool = field(default=False)

    @property
    def tools(self) -> list[str]:
        """Ids of the tools that the model is offered. A call of any other would be refused."""
        own = [each for each in self.declared if each not in NEVER_DECLARED]
        authoring = sorted(AUTHORING) if self.is_architect else []
        offered = dict.fromkeys((*own, *authoring, *ALWAYS))
        return [each for each in offered if each != ASK_USER or not self.silence]

    @property
    def granted(self) -> frozenset[str]:
        """Ids that the model may call, including aliases of offered tools."""
        # `ask_user` is granted even if no person may be asked: the refusal then says why.
        offered = (*self.tools, ASK_USER)
        return frozenset((*offered, *(ALIASES[each] for each in offered if each in ALIASES)))

    def nameable(self, visible: set[str]) -> set[str]:
        """Return the ids that a hint may name: visible tools that are granted, and `finish`."""
        unasked = {ASK_USER} if self.silence else set[str]()
        granted = self.granted - unasked
        return {each for each in granted if each in visible or each == FINISH}

    def refusal(self, call: Call) -> CallError | None:
        """Return why the session may not call an existing tool; None if it may.

        Guards of plugins are not asked here: the invoker asks them last.
        """
        reason = self._refusal(call.tool_id)
        return None if reason is None else NotPermitted(reason)

    def plugin_refusal(self, call: Call) -> CallError | None:
        """Return why a plugin's guard refuses the call; None if no guard does."""
        for guard in self.guards:
            # A copy: a guard that changes the input must not change what was validated.
            shown = replace(call, input=own_copy(call.input))
            if (reason := guard(shown)) is not None:
                return NotPermitted(reason)
        return None

    def finish(self) -> None:
        """Refuse all further calls: a valid call of `finish` was made."""
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
