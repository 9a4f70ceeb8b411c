"""The guard of an agent session: which tools its model may call, and when.

A session restricts: its agent may call what its definition declares, and three tools that every
session has. `policy` asks it. It refuses a call in this order: it has finished, the tool is not
granted, the agent may not ask people. Guards of plugins come last, when nothing else refuses the
call.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import ASK_USER, FINISH, SKILL_READ, SUBAGENT, Call, CallPath
from penstock.core.call_errors import CallError, NotPermitted
from penstock.core.ids import TaskId
from penstock.tools.outputs import own_copy

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
        >>> from penstock.tools.session_guard import GuardedSession
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
