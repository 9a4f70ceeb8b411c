"""What an agent session may call: what its agent declared, and what every session has.

It stands in front of the grants of the door: after finish, granted, blocked questions, in that
order. Behind them the door looks at paths and commands as the tool has them, and asks the guards of
plugins last.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import ASK_USER, FINISH, SKILL_READ, SUBAGENT, Call, CallPath
from penstock.core.call_errors import CallError, NotPermitted
from penstock.core.ids import TaskId
from penstock.tools.results.outputs import own_copy

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
        >>> from penstock.tools.access.session_guard import GuardedSession
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
