"""Reads the events of a task for its Reply: the calls as a tree, the messages, the output."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from penstock.agents.agent import AnyAgent
from penstock.agents.output_contract import OutputContract
from penstock.core.envelope import Json
from penstock.core.events.events import (
    CallSettled,
    MessageReceived,
    Record,
    ReplyReceived,
    TaskEnded,
    TaskStarted,
)
from penstock.core.events.flow_events import HandedOff
from penstock.core.reply import (
    AssistantMessage,
    Message,
    OutputChanged,
    Reply,
    StoredOutput,
    TaskCancelled,
    TaskFailed,
    TaskSuspended,
    ToolCall,
    UserMessage,
)
from penstock.tools.python.signature import Misfit

Outputs = Mapping[str, OutputContract | None]
"""The forms of the outputs of agents, by their names; None is text."""
NO_HANDOFFS: Outputs = MappingProxyType({})
_ERRORS = {"failed": TaskFailed, "cancelled": TaskCancelled, "suspended": TaskSuspended}


class RecordedTask(Struct, frozen=True):
    """The events of one task, and the form of its output."""

    records: Sequence[Record]
    contract: OutputContract | None = None
    """None if the output is text, or if the program knows no type."""
    is_json: bool = False
    """Whether an output without a known type is read as JSON, not as text."""
    handed: Outputs = NO_HANDOFFS
    """The forms of the agents that the program's agent hands off to, by name."""

    def __eq__(self, other: object) -> bool:
        """Whether it is the same events; a copy of a type that reads them is another object."""
        return isinstance(other, RecordedTask) and self.records == other.records

    def __hash__(self) -> int:
        """Return a number that equal values share; events need not be hashable."""
        return len(self.records)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the events, and the types that read their output: they must be importable."""
        contract = self.contract and _reading(self.contract)
        handed = {name: each and _reading(each) for name, each in self.handed.items()}
        return RecordedTask, (self.records, contract, self.is_json, handed)

    def __repr__(self) -> str:
        """Return how much is recorded: a reply is printed often, and its events are many."""
        return f"RecordedTask({len(self.records)} events)"

    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of the model in its order, with those inside them."""
        return tuple(call_trees(self.records))

    def messages(self) -> tuple[Message, ...]:
        """Return the message of the task, and its answer if there is one."""
        messages: list[Message] = []
        for record in self.records:
            match record.event:
                case MessageReceived(message_id=message_id, content=text) if message_id:
                    messages.append(UserMessage(text=text, id=message_id))
                case TaskEnded(message_id=str(message_id), content=text):
                    answer = AssistantMessage(text=text, calls=self.calls(), id=message_id)
                    messages.append(answer)
                case _:
                    pass
        return tuple(messages)

    def output(self, reply: Reply[Any]) -> Any:
        """Return the output in its type, else the text. Raises TaskError if there is none."""
        self.check(reply)
        ended = self.records[-1].event if self.records else None
        recorded = ended.output if isinstance(ended, TaskEnded) else None
        # The output has the form of the agent that gave it.
        contract = self.handed.get(reply.agent, self.contract) if self.handed else self.contract
        if contract is None:
            return recorded.value if recorded and self.is_json else reply.content
        if recorded is None:
            raise OutputChanged(reply, None, contract.schema)
        value = contract.read(recorded)
        if isinstance(value, Misfit):
            raise OutputChanged(reply, self._schema(), contract.schema)
        return value

    def _schema(self) -> Json | None:
        """Return the schema that the task had: its message's, or that of its last agent."""
        found: Json | None = None
        for record in self.records:
            match record.event:
                case MessageReceived(output_schema=schema) if schema is not None:
                    return schema
                case TaskStarted(agent_schema=schema) | HandedOff(agent_schema=schema):
                    found = schema
                case _:
                    pass
        return found

    def check(self, reply: Reply[Any]) -> None:
        """Raise TaskError if the task did not succeed."""
        if (error := _ERRORS.get(reply.status)) is not None:
            raise error(reply)


def _reading(contract: OutputContract) -> OutputContract:
    """Return what reads outputs of a contract, without what makes a model give them."""
    return OutputContract(variants=(), schema=contract.schema, types=contract.types)


def form_of(agent: AnyAgent, find: Callable[[str], AnyAgent | None]) -> RecordedTask:
    """Return what reads the outputs of an agent, and of those that it hands off to."""
    found: dict[str, OutputContract | None] = {}
    agents = [agent]
    for each in agents:
        for other in each.handoffs:
            one = find(other) if isinstance(other, str) else other
            if one is not None and one.name not in found:
                found[one.name] = one.contract
                agents.append(one)
    return RecordedTask((), agent.contract, handed=found)


def ended_call(
    call_id: str, input: dict[str, Any], settled: CallSettled, inside: tuple[ToolCall, ...] = ()
) -> ToolCall:
    """Return a call with its outcome."""
    stored: StoredOutput | None = None
    if settled.artifact_blob is not None and settled.envelope.ok:
        characters = settled.total_characters or 0
        stored = StoredOutput(settled.artifact_blob, settled.is_text, characters)
    return ToolCall(
        id=call_id,
        tool=settled.tool_id,
        input=input,
        envelope=settled.envelope,
        seconds=settled.duration_ms / 1000,
        calls=inside,
        stored=stored,
    )


class _Node(Struct):
    """A call while the tree grows."""

    id: str
    tool: str
    input: dict[str, Any]
    frame: str = ""
    """The path of the agent that asked for it; empty for the main agent and for other calls."""
    iteration: int = 0
    path: str = ""
    """Known once the call has settled."""
    settled: CallSettled | None = None
    inside: list["_Node"] = field(default_factory=list)

    def call(self) -> ToolCall:
        inside = tuple(node.call() for node in self.inside)
        if self.settled is None:
            return ToolCall(id=self.id, tool=self.tool, input=self.input, calls=inside)
        return ended_call(self.id, self.input, self.settled, inside)

    @property
    def above(self) -> str:
        """The path of what contains the call."""
        return self.path.rpartition("/")[0] or self.frame


def call_trees(records: Sequence[Record]) -> Iterator[ToolCall]:
    """Yield the calls that no other call contains, each with the calls inside it.

    The path of a call contains the paths of the calls around it, but the log has it only once the
    call has settled. Until then the calls inside it are found by its reply and its tool: two equal
    calls that wait at once share them.
    """
    nodes: list[_Node] = []
    by_id: dict[str, _Node] = {}
    for record in records:
        match record.event:
            case ReplyReceived(calls=calls, iteration=iteration):
                frame = record.path or ""
                for call in calls:
                    node = _Node(call.call_id, call.name, call.arguments, frame, iteration)
                    by_id[call.call_id] = node
                    nodes.append(node)
            case CallSettled(call_id=call_id) as settled:
                path = record.path or ""
                settling = by_id.get(call_id or "")
                if settling is None:
                    settling = _Node(call_id or path, settled.tool_id, {})
                    nodes.append(settling)
                settling.settled, settling.path = settled, path
            case _:
                pass
    by_path = {node.path: node for node in nodes if node.path}
    roots: list[_Node] = []
    for node in nodes:
        above = _container(node.above, by_path, nodes)
        (roots if above is None else above.inside).append(node)
    yield from (node.call() for node in roots)


def _container(path: str, by_path: dict[str, _Node], nodes: Sequence[_Node]) -> _Node | None:
    """Return the innermost call on a path, settled or not; None if no call is on it."""
    while "#" in path:
        if (node := by_path.get(path)) is not None:
            return node
        above, _, part = path.rpartition("/")
        for node in nodes:
            is_open = node.settled is None and above.endswith(f"/{node.iteration}")
            if is_open and part.startswith(f"{node.tool}#"):
                return node
        path = above
    return None
