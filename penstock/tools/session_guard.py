"""What an agent session may call: what its agent declared, and what every session has (flows, 12).

It stands in front of the grants of the door: after finish, granted, blocked questions, in that
order. Paths and commands are looked at by the tools that take them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.core.call import Call, CallPath
from penstock.core.call_errors import CallError, NotPermitted
from penstock.core.ids import TaskId

FINISH, ASK_USER, SKILL_READ, SUBAGENT = "finish", "ask_user", "skill_read", "subagent"
ALWAYS = (FINISH, ASK_USER, SKILL_READ)
AUTHORING = frozenset({"agent_catalog", "agent_write", "flow_write"})
"""What flow-architect has, and the agents that it starts."""
NEVER_DECLARED = AUTHORING | {SUBAGENT}
"""What no `tools:` grants."""
ARCHITECT = "flow-architect"

Check = Callable[[Call], str | None]
"""A guard of a plugin: why it refuses a call, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """What a guard of a plugin knows of the agent session that it stands before."""

    run_id: TaskId
    frame: CallPath
    agent: str
    tools: Sequence[str]
    """What its model is offered."""
    is_autonomous: bool


@dataclass(slots=True, kw_only=True)
class SessionGuard:
    """The grants of one agent session, and whether it has finished."""

    agent: str
    declared: Sequence[str] = ()
    """In the order of the agent's file."""
    is_architect: bool = False
    is_autonomous: bool = False
    is_interactive: bool = True
    checks: Sequence[Check] = ()
    """Of plugins; the first that refuses counts."""
    is_finished: bool = field(default=False)

    @property
    def tools(self) -> list[str]:
        """The ids of the tools that the model is offered."""
        own = [each for each in self.declared if each not in NEVER_DECLARED]
        authoring = sorted(AUTHORING) if self.is_architect else []
        return list(dict.fromkeys((*own, *authoring, *ALWAYS)))

    def refusal(self, call: Call) -> CallError | None:
        """Return why the session may not make a call of a tool that exists; None if it may."""
        said = self._refusal(call.tool_id)
        for check in self.checks if said is None else ():
            if (said := check(call)) is not None:
                break
        return None if said is None else NotPermitted(said)

    def finish(self) -> None:
        """Take in that `finish` was called validly: nothing may be called from here on."""
        self.is_finished = True

    def blocked(self, tool_id: str) -> str | None:
        """Return why a call of this tool, which would ask a person, may not; code is told too."""
        if tool_id != ASK_USER:
            return None
        if self.is_autonomous:
            why = "this run is autonomous"
        elif not self.is_interactive:
            why = f'agent "{self.agent}" is not interactive'
        else:
            return None
        return f"ask_user is blocked: {why}. Decide on your own and go on."

    def _refusal(self, tool_id: str) -> str | None:
        if self.is_finished:
            return "finish was already called; no further tool calls."
        if tool_id in NEVER_DECLARED and not (self.is_architect and tool_id in AUTHORING):
            return f'"{tool_id}" is not granted to agent "{self.agent}".'
        if tool_id not in self.tools:
            return self._undeclared(tool_id)
        return self.blocked(tool_id)

    def _undeclared(self, tool_id: str) -> str:
        declared = ", ".join(self.declared) or "none"
        return (
            f'"{tool_id}" is not declared by agent "{self.agent}". Declared: {declared}. '
            f"Always available: {', '.join(ALWAYS)}."
        )
