"""Hand-offs: the tools by which the model of an agent gives the conversation to another agent.

`transfer_to_billing` runs like every tool, so rules, approvals and hooks apply to it. It does
nothing itself: when all calls of its reply are settled, the loop of the agent ends with a Transfer,
and `chat/session` appends HandedOff and continues the task with the other agent. After a crash in
between, the settled call leads to the same Transfer. `chat/task_bodies` asks `transfer_of`, too:
a process that lacks the other agent leaves the task to one that has it.

Only the model of a conversation hands off, not a tool, a subagent or a step of a flow. A task has
at most `limits.run_depth`, so agents that hand off to each other come to an end.
Proof: tests/agents/test_handoffs.py and tests/journeys/test_handoffs.py.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct

from penstock.core.call import Effect
from penstock.core.call_errors import NotPermitted
from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events.events import TaskStarted
from penstock.core.events.flow_events import HandedOff
from penstock.engine.dialogue import Dialogue
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Registry, Tool

PREFIX = "transfer_to_"
KIND = "handoff"
"""The kind of these tools."""
NO_HANDOFFS: Mapping[str, str] = MappingProxyType({})
NO_AGENTS: Mapping[str, Any] = MappingProxyType({})
_MOST_CHARACTERS = 64
"""Of the name of a tool, as providers allow."""
_NO_INPUT: Json = {"type": "object", "properties": {}, "additionalProperties": False}


class Transfer(Struct, frozen=True):
    """The end of an agent's turns in a task: another agent continues."""

    agent: str


class Described(Protocol):
    """An agent, as a hand-off to it needs it."""

    @property
    def name(self) -> str:
        """Return its name."""
        ...

    @property
    def description(self) -> str:
        """Return one sentence about it."""
        ...


class HandoffTool(Struct, frozen=True):
    """The tool that gives the conversation to one agent."""

    spec: ToolSpec
    agent: str
    """The agent that takes over."""
    siblings: Container[str] = ()
    """The hand-offs of the same agent: of several in one reply only the first one runs."""

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return what the model reads; the loop of the task does the rest."""
        task, call = invocation.ledger.task, invocation.call
        # In a frame the call would succeed, and the conversation would keep its agent.
        if call.call_id is None or task.dialogue_of(call.path) is not task.main:
            raise NotPermitted("only the model of a conversation's agent can hand it off")
        for each in task.main.rounds[-1].reply.calls:
            if each.call_id == call.call_id:
                break
            if each.name in self.siblings:
                raise NotPermitted(f"the same reply called {each.name} before; call one of them")
        handoffs = task.main.handoffs
        if handoffs >= invocation.edition.world.limits.run_depth:
            raise NotPermitted(
                f"the task was handed off {handoffs} times, and not once more is allowed "
                "(limits.run_depth); answer yourself, from what you have"
            )
        return f"{self.agent} has the conversation now."

    def preview(self, output: Any) -> str | None:
        """Return one line for people."""
        return f"handed off to {self.agent}"


def transfers_to(agent: str, others: object) -> Mapping[str, str]:
    """Return the agents that an agent hands off to, by the ids of the tools.

    Raises ConfigError if two of them have one tool, or an agent hands off to itself.
    """
    if isinstance(others, str) or not isinstance(others, Iterable):
        raise ConfigError(f"handoffs= takes a list, such as handoffs=[billing]; found {others!r}")
    found: dict[str, str] = {}
    for other in others:
        if not isinstance(other, str) and not isinstance(getattr(other, "transfers", 0), Mapping):
            raise ConfigError(f"handoffs= takes Agent objects or their names, found {other!r}")
        name = other if isinstance(other, str) else other.name
        tool_id = transfer_tool(name)
        if name == agent:
            raise ConfigError(f"agent {agent!r} hands off to itself; remove it from `handoffs`")
        if found.setdefault(tool_id, name) != name:
            raise ConfigError(
                f"agent {agent!r} hands off to {found[tool_id]!r} and {name!r}, and both would be "
                f"the tool {tool_id!r}; rename one of them"
            )
    return MappingProxyType(found) if found else NO_HANDOFFS


def transfer_tool(agent: str) -> str:
    """Return the id of the tool that hands off to an agent."""
    return (PREFIX + re.sub(r"[^A-Za-z0-9_-]", "_", agent))[:_MOST_CHARACTERS]


def handoff_tools(transfers: Mapping[str, str], find: Callable[[str], Described]) -> Iterator[Tool]:
    """Yield the tools of an agent's hand-offs. Agents that do not exist are left out."""
    for tool_id, name in transfers.items():
        # A file may be gone since the project was opened; the model then answers itself.
        try:
            other = find(name)
        except NotFound:
            continue
        described = f" {other.description}" if other.description else ""
        spec = ToolSpec(
            tool_id=tool_id,
            description=f"Hand the conversation off to {name}, who answers from now on.{described}",
            input_schema=_NO_INPUT,
            effect=Effect.NONE,
            kind=KIND,
        )
        yield HandoffTool(spec, name, transfers)


def is_handoff(registry: Registry, tool_id: str) -> bool:
    """Whether a tool hands the conversation off."""
    tool = registry.by_id.get(tool_id)
    return tool is not None and tool.spec.kind == KIND


def transfer_of(dialogue: Dialogue, transfers: Mapping[str, str]) -> Transfer | None:
    """Return the hand-off that the newest calls of an agent ask for, once all are settled."""
    if not (transfers and dialogue.rounds and dialogue.rounds[-1].is_settled):
        return None
    newest = dialogue.rounds[-1]
    for call in newest.reply.calls:
        if call.name in transfers and newest.settled[call.call_id].envelope.ok:
            return Transfer(transfers[call.name])
    return None


def handed_off(started: TaskStarted, agent: str, previous: str) -> HandedOff:
    """Return the event by which an agent takes over; `started` is how it would start the task."""
    return HandedOff(
        agent=agent,
        previous=previous,
        model=started.model,
        offered=started.offered,
        agent_schema=started.agent_schema,
        agent_digest=started.agent_digest,
    )


def check_handoffs(
    agents: Sequence[Any], tools: Container[str] = (), others: Mapping[str, Any] = NO_AGENTS
) -> None:
    """Raise ConfigError if an agent of a program cannot hand off as it says.

    Files have findings instead. `tools` are the ids of the project's tools, and `others` are agents
    that are there, too, and are not checked.
    """
    known = {**others, **{agent.name: agent for agent in agents}}
    for agent in agents:
        _check_tools(agent, tools)
        for other in () if agent.has_file else agent.handoffs:
            _check_handoff(agent, other, known)


def _check_tools(agent: Any, tools: Container[str]) -> None:
    own = None if agent.tools is None else {each.spec.tool_id for each in agent.tools}
    uses = {tool_id: f"its hand-off to {name!r}" for tool_id, name in agent.transfers.items()}
    if agent.contract is not None:
        uses |= dict.fromkeys(agent.contract.tool_ids, "how its model gives the output")
    for tool_id, use in uses.items():
        if tool_id in agent.tool_ids or tool_id in (tools if own is None else own):
            raise ConfigError(
                f"agent {agent.name!r} has a tool {tool_id!r}, which is also {use}; rename the tool"
            )


def _check_handoff(agent: Any, other: Any, known: Mapping[str, Any]) -> None:
    name = other if isinstance(other, str) else other.name
    if name not in known:
        raise ConfigError(
            f"agent {agent.name!r} hands off to {name!r}, but there is no agent {name!r}."
            f"{did_you_mean(name, known)} Pass it to penstock.open(agents=[...]), or write its file"
        )
    if not isinstance(other, str) and known[name] is not other:
        raise ConfigError(
            f"agent {agent.name!r} hands off to an agent {name!r} that is not the project's agent "
            f"{name!r}; pass one of them to both, or rename one"
        )
    # Otherwise `reply.output` would be another type than the one that checkers infer: str.
    if agent.output is None and known[name].contract is not None:
        raise ConfigError(
            f"agent {agent.name!r} has no output=, so its replies are text, but it hands off to "
            f"{name!r}, which returns another type; write Agent({agent.name!r}, output=str, ...): "
            "the type of its replies is then the union of both"
        )
