"""Read one streamed reply: pass its pieces on, and assemble its calls.

It guarantees that a reply without its final event is never taken as complete: it raises
ModelUnavailable, which is retried. Arguments that are not a JSON object, or are nested deeper than
`JSON_DEPTH`, stay text: the model gets InvalidInput with the reason, and no other code
recurses into them. Providers send the pieces of several calls interleaved, so they are collected by
their index. Proof: `tests/agents/test_reply_reader.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from penstock.agents.output_contract import OutputContract, OutputMode
from penstock.core.call import CallPath, ToolCall
from penstock.core.call_errors import InvalidInput
from penstock.core.errors import ModelUnavailable, PenstockError
from penstock.core.events.events import NoteEmitted, ReplyReceived
from penstock.core.ids import CallId, MessageId
from penstock.core.json_values.json_text import (
    JSON_DEPTH,
    is_deeper,
    parse_json,
    without_surrogates,
)
from penstock.core.late import late
from penstock.core.limits import World
from penstock.core.messages import Usage
from penstock.core.text import cut
from penstock.engine.budget import Budget
from penstock.engine.bus import OUTPUT_GROWTH, Bus, DeltaKind, LiveReply
from penstock.engine.ledger import Ledger
from penstock.models.model import (
    CallDelta,
    Finished,
    Model,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    Waiting,
    failure_of,
    usage_of,
)
from penstock.models.prices import UNKNOWN
from penstock.tools.cancellable import Deadline

CallPieces = tuple[list[str], list[str]]
"""The pieces of the name and of the arguments of a call."""


class WorkTime(Struct):
    """The clock of a task's work, which stops while a request waits for the limits of its model."""

    limit: Deadline
    budget: Budget
    waited_ms: int = 0

    def pause_or_resume(self, event: Waiting) -> None:
        """Stop the clock, or start it again after the time of the event."""
        if event.seconds is None:
            self.limit.pause()
            return
        self.waited_ms += round(1000 * event.seconds)
        self.budget.rest(event.seconds)
        self.limit.resume()


class ReplyReader:
    """Collects the pieces of one reply."""

    __slots__ = (
        *("_bus", "_calls", "_contract", "_live", "_new_id", "_reasoning", "_text", "_watch"),
        "_work",
    )

    def __init__(
        self,
        bus: Bus,
        world: World,
        live: LiveReply,
        work: WorkTime,
        *,
        contract: OutputContract | None = None,
    ) -> None:
        self._work = work
        self._bus = bus
        self._new_id = world.new_id
        self._live = live
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, CallPieces] = {}
        self._contract = contract
        """The form of the output to show while it streams; None to show none."""
        self._watch: OutputWatch | None = None
        if contract is not None:
            # Without the reply itself, which would be a cycle for the garbage collector.
            live.output = partial(output_so_far, contract, self._calls.values(), self._text)

    async def listen(
        self, model: Model, request: ModelRequest, closing: str | None
    ) -> ReplyReceived:
        """Read the stream to its end, and pass each piece on to the bus.

        Raises ModelError. The reply keeps its carry, of any size.
        """
        bus, live, contract = self._bus, self._live, self._contract
        try:
            async with aclosing(model.stream(request)) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        self._text.append(event.text)
                        bus.say(live, DeltaKind.TEXT, event.text)
                    elif isinstance(event, CallDelta):
                        name, arguments = self._calls.setdefault(event.index, ([], []))
                        name.append(event.name)
                        arguments.append(event.arguments)
                    elif isinstance(event, ReasoningDelta):
                        self._reasoning.append(event.text)
                        bus.say(live, DeltaKind.REASONING, event.text)
                    elif isinstance(event, Waiting):
                        self._work.pause_or_resume(event)
                    else:
                        usage = event.usage
                        if usage.cost_usd is not None or model.card.prices is not UNKNOWN:
                            usage = usage_of(model.card, event)
                        return self._whole(event, closing, usage)
                    if contract is not None and bus.is_followed(live.log_id):
                        self._show(contract, event)
        except PenstockError:
            raise
        except Exception as error:
            raise failure_of(model.card, error) from error
        raise ModelUnavailable("the model's reply ended in the middle")

    def _show(self, contract: OutputContract, event: ModelEvent) -> None:
        """Show the output so far to those who follow; the first of them may have come late."""
        if (watch := self._watch) is None and (read := self._live.output) is not None:
            is_text, pieces = contract.mode is OutputMode.NATIVE, self._text
            if not is_text:
                pieces = [each for _, arguments in self._calls.values() for each in arguments]
            size = sum(map(len, pieces[:-1]))
            watch = OutputWatch(self._bus, self._live, read, is_text=is_text, size=size)
            self._watch = watch
        if watch is not None:
            watch.take(event)

    def _whole(self, finished: Finished, closing: str | None, usage: Usage) -> ReplyReceived:
        live, new_id = self._live, self._new_id
        calls = () if closing or not self._calls else self._assembled(finished.reason == "length")
        return ReplyReceived(
            iteration=live.iteration,
            base=live.base,
            text="".join(self._text),
            message_id=MessageId(new_id("msg")),
            reasoning="".join(self._reasoning),
            order=_order(live.pieces) if self._reasoning and self._text else (),
            calls=calls,
            # The other figures are the model's; the counts of calls follow from the log.
            usage=replace(usage, model_calls=0, tool_calls=0),
            finish=closing or ("stop" if finished.reason == "tool_calls" else finished.reason),
            closing=closing is not None,
            carry=finished.carry,
            refusal=finished.refusal,
            response_id=finished.response_id,
            model=finished.model,
            waited_ms=self._work.waited_ms,
        )

    def _assembled(self, is_cut: bool) -> tuple[ToolCall, ...]:  # noqa: FBT001
        new_id = self._new_id
        calls = []
        last = max(self._calls)
        for index, (names, pieces) in sorted(self._calls.items()):
            text = "".join(pieces)
            arguments, raw = _parse(text, JSON_DEPTH)
            # Only the last call can be cut by the token limit, and only if it does not parse. Even
            # an empty one counts as cut: its arguments may be missing.
            if at_end := is_cut and index == last and not (raw is None and text):
                raw = text
            name = without_surrogates("".join(names))
            calls.append(ToolCall(CallId(new_id("tc")), name, arguments, raw, at_end))
        return tuple(calls)


def partial_output(contract: OutputContract, text: str, tool_id: str = "") -> Any:
    """Return the output that the beginning of a model's JSON holds; UNSET if there is none.

    Open brackets and texts are completed: the last text or number may be cut. `tool_id` is the tool
    that hands it in; empty for the text of an answer.
    """
    begun_json: Callable[[str], Any] = late("penstock.tools.python.hints:begun_json")
    if (value := begun_json(text)) is UNSET:
        return UNSET
    if tool_id and not contract.by_tool[tool_id].is_wrapped:
        return value
    if tool_id or contract.is_text_wrapped:
        return value.get("value", UNSET) if isinstance(value, dict) else UNSET
    return value if contract.fitted is None else contract.fitted.restored(value)


def output_so_far(
    contract: OutputContract, calls: Iterable[CallPieces], texts: Sequence[str]
) -> Any:
    """Return the output in the pieces of a reply; UNSET if there is none yet."""
    if contract.mode is OutputMode.NATIVE:
        return partial_output(contract, "".join(texts))
    for names, arguments in calls:
        # Of several answers in one reply, only the first one counts.
        if (tool_id := "".join(names)) in contract.tool_ids and (text := "".join(arguments)):
            return partial_output(contract, text, tool_id)
    return UNSET


class OutputWatch:
    """Shows the typed output in a reply while it streams, to those who follow.

    The output is read again only after its text has grown by a share of itself: however small its
    pieces are, this costs a constant number of times its length.
    """

    __slots__ = ("_bus", "_is_text", "_live", "_next", "_read", "_shown", "_size")

    def __init__(
        self, bus: Bus, live: LiveReply, read: Callable[[], Any], *, is_text: bool, size: int
    ) -> None:
        self._bus = bus
        self._live = live
        self._read = read
        self._is_text = is_text
        """Whether the output is the text of the reply; else the arguments of a call."""
        self._size = size
        self._next = 0
        self._shown: Any = UNSET

    def take(self, event: ModelEvent) -> None:
        """Show the output as far as the reply has it with this event."""
        if type(event) is CallDelta:
            text = "" if self._is_text else event.arguments
        else:
            text = event.text if self._is_text and type(event) is TextDelta else ""
        self._size += len(text)
        if not text or self._size <= self._next:
            return
        self._next = self._size + self._size // OUTPUT_GROWTH
        found = self._read()
        if found is not UNSET and found != self._shown:
            self._shown = found
            self._bus.show_output(self._live, found)


def _parse(text: str, depth: int) -> tuple[dict[str, Any], str | None]:
    """Return the arguments, or none and the text if it is not an object or nested too deeply."""
    if not text.strip():
        return {}, None
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return {}, text
    if type(value) is not dict:
        return {}, text
    # Brackets bound the depth and are cheap to count: only a text with many of them is walked.
    if len(text) > depth and text.count("{") + text.count("[") > depth and is_deeper(value, depth):
        return {}, text
    return value, None


def malformed(call: ToolCall, depth: int) -> InvalidInput:
    """Return why the arguments of a call cannot be read."""
    text, why = call.arguments_text or "", "cut off by llm_max_tokens"
    if not call.cut:
        why = f"not the JSON of an object, or nested more than {depth} levels deep"
        with suppress(RecursionError):
            try:
                parse_json(text)
            except ValueError as error:
                why = f"not the JSON of an object ({error})"
    return InvalidInput(
        f'the arguments of "{call.name}" are {why}: {cut(text, 200)}',
        suggestion="Call it again with a JSON object that matches its parameters.",
    )


def record_carry(
    reply: ReplyReceived, ledger: Ledger, path: CallPath | None, *, most: int
) -> ReplyReceived:
    """Add a reply to the log, without a carry of over `most` bytes, and warn of lost carries."""
    size = 0 if reply.carry is None else len(msgspec.json.encode(reply.carry))
    if size > most:
        reply = replace(reply, carry=None)
    ledger.add(reply, path)
    if size > most:
        message = (
            f"what the model wants to receive back has {size} bytes; at most {most} are kept, "
            "so the model continues without its earlier thinking"
        )
        ledger.note(path, _warning("carry_too_large", message))
    if reply.carry_dropped:
        message = (
            "the provider refused the thinking of earlier replies; "
            f"replies up to event {reply.base} are sent without it from now on"
        )
        ledger.note(path, _warning("carry_dropped", message))
    return reply


def _warning(event_type: str, message: str) -> NoteEmitted:
    return NoteEmitted(event_type=event_type, message=message, level="warning")


def _order(pieces: list[tuple[DeltaKind, str]]) -> tuple[int, ...]:
    """Return the lengths of alternating runs, reasoning first; empty if there is one of each."""
    runs: list[int] = []
    turn = DeltaKind.REASONING
    for kind, text in pieces:
        if kind is not turn or not runs:
            runs += [0] if kind is turn or runs else [0, 0]
            turn = kind
        runs[-1] += len(text)
    return tuple(runs) if len(runs) > 2 else ()  # noqa: PLR2004
