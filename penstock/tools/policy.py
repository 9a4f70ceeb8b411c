"""The visibility table: which caller may call which tool.

It guarantees that a call is refused unless one of the `grants` holds for its origin, and that a
model or an outside client cannot tell a hidden tool from one that does not exist (ToolNotFound). A
script gets NotPermitted with the missing grants, because its author has to add one.

The table depends only on the ToolSpec and the Caller, so the same function decides for the call
itself, for the list of tools and for `penstock tools grants`. A nested call inherits the grants of
its root: `Invocation` builds its Caller. Rules, hooks and approvals come after it (`RuleSet` below,
and `Admission`), and can only restrict.

An agent session of a flow restricts, too (`SessionGuard`): its agent may call what its definition
declares, and three tools that every session has. It refuses a call in this order: it has finished,
the tool is not granted, the agent may not ask people.

Proof: `tests/tools/test_policy.py::test_every_cell_of_the_visibility_table`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import ASK_USER, FINISH, SKILL_READ, SUBAGENT, Call, Origin
from penstock.core.call_errors import CallError, NotPermitted, ToolNotFound
from penstock.core.clock import Moment
from penstock.core.envelope import Json
from penstock.core.ids import ASSISTANT
from penstock.core.json_values.schema import Schema
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.resources.project.access import OPEN, Access
from penstock.resources.redact import Redactor
from penstock.tools.hooks.hooks import AgentHooks, inside
from penstock.tools.skills import NOTHING, Selection, TaskSkills
from penstock.tools.spec import ToolSpec

SCRIPT = "script"
"""The kind of script tools."""
PLUGIN = "plugin"
"""The kind of plugin tools. Only agent sessions may call them."""
ALWAYS = (FINISH, ASK_USER, SKILL_READ)
AUTHORING = frozenset({"agent_catalog", "agent_write", "flow_write"})
"""Tools of flow-architect, and of the agents that it starts."""
NEVER_DECLARED = AUTHORING | {SUBAGENT}
"""Tools that no `tools:` list can grant."""
ALIASES = {"find": "glob", "glob": "find"}
"""Tool aliases. Permission for one name grants the other."""
ARCHITECT = "flow-architect"
AUTONOMOUS = "this run is autonomous"


class SessionGuard(Struct, kw_only=True):
    """The grants of one agent session, and whether it has finished."""

    agent: str
    declared: Sequence[str] = ()
    """In the order of the agent's file."""
    is_architect: bool = False
    is_autonomous: bool = False
    is_interactive: bool = True
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
        """Return why the session may not call an existing tool; None if it may."""
        reason = self._refusal(call.tool_id)
        return None if reason is None else NotPermitted(reason)

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


class Caller(Struct, frozen=True, kw_only=True):
    """The caller of a tool: its origin, profile, agent and skills."""

    origin: Origin
    profile: Profile = LOCAL_PROFILE
    agent: str = ASSISTANT
    agent_tools: Collection[str] = ()
    """Ids of the tools that the agent's settings offer to its model."""
    selection: Selection = NOTHING
    """The grants of the selected skills when the call started."""
    skills: TaskSkills | None = None
    """The skills of the task. Nested calls use the selection at their own start."""
    root: ToolSpec | None = None
    """The tool of the direct call at the root of a nested call."""
    calling_tool: str = ""
    """The id of the tool whose code makes a nested call."""
    calling_kind: str = ""
    """The kind of that tool: `script`, or a kind that runs in this process."""
    permissions: dict[str, str] = field(default_factory=dict)
    """The agent's `tool_permissions`: tool id to `allow`, `ask` or `deny`."""
    question_ttl_seconds: float | None = None
    """How long a question waits for a person; None means without a limit."""
    secrets: Redactor = field(default_factory=Redactor)
    """The secrets that the task received. The invoker sets it, and redacts all records with it."""
    access: Access = OPEN
    """The project files that the agent may use, and the commands that it may not run."""
    revert: str = ""
    """The tool that an undo calls; it need not allow direct calls."""
    clip_at: int | None = None
    """How many characters of a result this caller reads; None means all."""
    session: SessionGuard | None = None
    """The agent session that calls; None for a person's own session."""
    is_autonomous: bool = False
    """Whether it belongs to a run that must not ask a person."""
    hooks: AgentHooks | None = None
    """The hooks of the agent; its nested calls pass them, too."""
    working_for: tuple[str, ...] = ()
    """The agents around, the outermost first, of an agent that works for a call. Rules that
    restrict them restrict it, too."""

    def within(self, outer: "Caller") -> "Caller":
        """Return an agent that works for a call of another agent: it may do what both may.

        What the outer agent is denied, or must ask for, is denied to it, or it must ask. The hooks
        of the outer agent see its calls, before its own do.
        """
        strength = STRENGTH.index
        stricter = {
            tool_id: action
            for tool_id, action in outer.permissions.items()
            if strength(Action(action))
            > strength(Action(self.permissions.get(tool_id, Action.ALLOW)))
        }
        return replace(
            self,
            permissions={**self.permissions, **stricter},
            access=self.access.within(outer.access),
            hooks=inside(self.agent, self.hooks, outer.hooks),
            working_for=(*outer.working_for, outer.agent),
            is_autonomous=self.is_autonomous or outer.is_autonomous,
        )

    def newest(self) -> Selection:
        """Return what the skills that are selected now grant."""
        return self.selection if self.skills is None else self.skills.selection

    def expiry(self, now: Moment) -> Moment | None:
        """Return when a question that is asked now expires, if it does."""
        seconds = self.question_ttl_seconds
        return None if seconds is None else Moment(now + round(1000 * seconds))

    def check_may_ask(self, what: str = ASK_USER) -> None:
        """Raise NotPermitted if the caller may not ask a person (autonomous run, silent agent)."""
        if why := self.silence:
            raise NotPermitted(blocked(what, why))

    @property
    def silence(self) -> str:
        """Why the caller may not ask a person; empty if it may. Approvals ignore it."""
        if self.is_autonomous:
            return AUTONOMOUS
        return "" if self.session is None else self.session.silence


def find_refusal(spec: ToolSpec, caller: Caller) -> CallError | None:
    """Return why the caller may not call the tool; None if it may.

    ToolNotFound when a model or an outside caller cannot see the tool, NotPermitted when a script
    has no grant, or when the profile lacks a permission.
    """
    if find_grant(spec, caller) is None:
        return _refusal(spec, caller)
    if spec.tool_id == ASK_USER and (why := caller.silence):
        return NotPermitted(blocked(ASK_USER, why))
    if not spec.requires_permissions or caller.profile.everything:
        return None
    missing = sorted(name for name in spec.requires_permissions if not caller.profile.holds(name))
    if not missing:
        return None
    return NotPermitted(
        f'"{spec.tool_id}" needs the permission {", ".join(missing)}',
        details={"missing_permissions": missing},
    )


def find_grant(spec: ToolSpec, caller: Caller) -> str | None:
    """Return the first grant that covers the call."""
    for name, holds in grants(spec, caller):
        if holds:
            return name
    return None


def grants(spec: ToolSpec, caller: Caller) -> Iterator[tuple[str, bool]]:
    """Yield every reason this origin could be allowed, and whether it holds."""
    tool_id, selection, root = spec.tool_id, caller.selection, caller.root
    # First: no skill, setting or `direct_call` may grant what only flow-architect has.
    is_architect = caller.session is not None and caller.session.is_architect
    if tool_id in AUTHORING:
        yield "architect", is_architect
        return
    if tool_id == SUBAGENT and caller.session is not None:
        yield "architect", is_architect and caller.origin is Origin.SCRIPT
        return
    if spec.kind == PLUGIN and caller.session is None:
        yield "session", False
        return
    if caller.origin is Origin.DIRECT:
        yield "direct_call", spec.direct_call
        yield "revert", tool_id == caller.revert
        return
    yield "global", spec.is_global
    yield "tools", tool_id in selection.tools
    yield "inline", tool_id in selection.inline
    if caller.origin is not Origin.SCRIPT:
        yield "agent", tool_id in caller.agent_tools
        return
    yield "script_tools", tool_id in selection.script_tools
    if root is None:
        yield "direct_call", spec.direct_call
        return
    yield "self", root.direct_call and tool_id == root.tool_id
    yield "direct_call", spec.direct_call
    yield "own_script_tools", tool_id in root.script_tools


def _refusal(spec: ToolSpec, caller: Caller) -> ToolNotFound | NotPermitted:
    if caller.origin is not Origin.SCRIPT:
        return ToolNotFound(f"There is no tool {spec.tool_id!r}.")
    kind = "script of" if caller.calling_kind == SCRIPT else "tool"
    skills = ", ".join(caller.selection.skills) or "none"
    own = f', not in the script_tools of "{caller.root.tool_id}"' if caller.root else ""
    return NotPermitted(
        f'{kind} "{caller.calling_tool}" may not call "{spec.tool_id}": it is not global, '
        f'not in "tools", "script_tools" or "tool_definitions" of the selected skills ({skills}), '
        f"not direct_call{own}",
        details={"missing": [name for name, _ in grants(spec, caller)]},
    )


class Action(StrEnum):
    """The decision of a rule. A later member wins over an earlier one."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


STRENGTH = (Action.ALLOW, Action.ASK, Action.DENY)


class Rule(Struct, frozen=True, kw_only=True):
    """One `[[rules]]` entry: the calls that it matches, and its decision."""

    tool: str
    """A glob over tool ids."""
    action: Action
    agent: str = "*"
    labels: frozenset[str] = frozenset()
    """The rule matches a tool with one of these labels; an empty set matches every tool."""
    when: Schema | None = None
    """The rule matches an input that fits this schema."""

    def __str__(self) -> str:
        """Return its conditions, as penstock.toml has them."""
        agent = "" if self.agent == "*" else f", agent {self.agent!r}"
        labels = f", labels {sorted(self.labels)}" if self.labels else ""
        return f"tool {self.tool!r}{agent}{labels}{', when' if self.when is not None else ''}"

    def matches(self, spec: ToolSpec, caller: Caller) -> bool:
        """Whether the rule matches the tool and the agent; it ignores the input."""
        if self.labels and not self.labels.intersection(spec.labels):
            return False
        if not fnmatchcase(spec.tool_id, self.tool):
            return False
        # What an agent is allowed does not allow it to agents that work for it.
        names = () if self.action is Action.ALLOW else caller.working_for
        return any(fnmatchcase(name, self.agent) for name in (caller.agent, *names))


class RuleSet:
    """All rules of a project."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = tuple(rules)
        self.is_empty = not self._rules
        """Whether there is no rule."""
        self._whens: dict[str, Schema] = {}

    def decide(self, spec: ToolSpec, caller: Caller, input: Json) -> Action:
        """Return the decision on a call: deny beats ask, and ask beats allow.

        The tool's own default counts only if no rule and no permission matches.
        """
        # Asked for every call and every offered tool, and most projects have no rules.
        if not self._rules and not caller.permissions:
            return self._default(spec, caller, input)
        actions = [rule.action for rule in self._matching(spec, caller) if _fits(rule.when, input)]
        if permission := caller.permissions.get(spec.tool_id):
            actions.append(Action(permission))
        if actions:
            return max(actions, key=STRENGTH.index)
        return self._default(spec, caller, input)

    def hides(self, spec: ToolSpec, caller: Caller) -> bool:
        """Whether the tool is not even offered, because every input is denied."""
        if not self._rules and not caller.permissions:
            return False
        if caller.permissions.get(spec.tool_id) == Action.DENY:
            return True
        matching = self._matching(spec, caller)
        # A `deny` with a `when` depends on the input: the tool is offered, and some calls fail.
        return any(rule.action is Action.DENY and rule.when is None for rule in matching)

    def denial(self, spec: ToolSpec, caller: Caller, input: Json | None = None) -> str:
        """Return the message that names the permission or the rule which forbids the call."""
        if caller.permissions.get(spec.tool_id) == Action.DENY:
            return f'the permissions of the agent "{caller.agent}" forbid "{spec.tool_id}"'
        for number, rule in enumerate(self._rules, 1):
            fits = rule.when is None or (input is not None and _fits(rule.when, input))
            if rule.action is Action.DENY and fits and rule.matches(spec, caller):
                return (
                    f'a rule of this project forbids "{spec.tool_id}": [[rules]] {number}, {rule}'
                )
        return f'a rule of this project forbids "{spec.tool_id}"'

    def _matching(self, spec: ToolSpec, caller: Caller) -> list[Rule]:
        return [rule for rule in self._rules if rule.matches(spec, caller)]

    def _default(self, spec: ToolSpec, caller: Caller, input: Json) -> Action:
        approval = spec.requires_approval
        if spec.asks_in_chats and caller.session is None:
            return Action.ASK
        if approval is False:
            return Action.ALLOW
        if approval is True:
            return Action.ASK
        when = self._whens.get(spec.tool_id)
        if when is None:
            when = self._whens[spec.tool_id] = Schema(approval["when"])
        return Action.ASK if _fits(when, input) else Action.ALLOW


def _fits(when: Schema | None, input: Json) -> bool:
    return when is None or not when.problems(input)
