"""A reply as it comes in: pieces passed on in order, calls put together."""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from pydantic import BaseModel

from penstock.agents.output_contract import (
    OutputContract,
    OutputForm,
    OutputMode,
    contract_of,
)
from penstock.agents.reply_reader import (
    ReplyReader,
    WorkTime,
    partial_output,
)
from penstock.core.call import ToolCall
from penstock.core.clock import SystemClock
from penstock.core.errors import ModelUnavailable
from penstock.core.events.events import ReplyReceived
from penstock.core.ids import LogId, TaskId, new_id
from penstock.core.limits import Limits, World
from penstock.core.messages import Usage
from penstock.engine.budget import Allowance, Budget
from penstock.engine.bus import (
    Bus,
    DeltaKind,
    LiveReply,
    OutputSoFar,
    Subscription,
)
from penstock.engine.task_state import Spent
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    Waiting,
)
from penstock.models.scripted import SCRIPTED
from penstock.testing.clock import FakeClock
from penstock.tools.cancellable import Deadline

REQUEST = ModelRequest(system="", messages=[])
USAGE = Usage(input_tokens=7, output_tokens=3, model_calls=99, cost_usd=0.5)


class Told:
    """A model that yields exactly these events."""

    card = SCRIPTED

    def __init__(self, *events: ModelEvent) -> None:
        self._events = events

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for event in self._events:
            yield event

    async def close(self) -> None:
        pass


def done(reason: str = "stop") -> Finished:
    return Finished(reason, USAGE)


def work_time(world: World) -> WorkTime:
    limit = Deadline(asyncio.current_task(), 60)
    return WorkTime(limit, Budget(Allowance(), Spent(), world.clock))


async def hear(*events: ModelEvent, closing: str | None = None) -> tuple[ReplyReceived, LiveReply]:
    live = LiveReply(LogId("conv_1"), TaskId("task_1"), 3, 2)
    world = World(FakeClock(), Limits(), new_id)
    reader = ReplyReader(Bus(), world, live, work_time(world))
    reply = await reader.listen(Told(*events), REQUEST, closing)
    return reply, live


def summary(call: ToolCall) -> tuple[str, object, str | None, bool]:
    return call.name, call.arguments, call.arguments_text, call.cut


async def test_text_and_reasoning_come_together_and_in_their_order() -> None:
    reply, live = await hear(
        ReasoningDelta("Hm, "), ReasoningDelta("yes."), TextDelta("Hel"), TextDelta("lo"), done()
    )
    assert (reply.reasoning, reply.text, reply.order) == ("Hm, yes.", "Hello", ())
    assert (live.units, reply.base, reply.iteration) == (13, 3, 2)
    assert live.pieces[2] == (DeltaKind.TEXT, "Hel")


async def test_reasoning_between_the_words_keeps_its_place() -> None:
    reply, _ = await hear(
        TextDelta("One"), ReasoningDelta("hm"), TextDelta("two"), ReasoningDelta("ah"), done()
    )
    assert reply.order == (0, 3, 2, 3, 2)


async def test_usage_is_that_of_the_provider_without_its_counts_of_calls() -> None:
    reply, _ = await hear(TextDelta("x"), done())
    assert reply.usage == Usage(input_tokens=7, output_tokens=3, cost_usd=0.5)


@pytest.mark.parametrize(
    ("reason", "closing", "finish"),
    [
        ("stop", None, "stop"),
        ("tool_calls", None, "stop"),
        ("length", None, "length"),
        ("content_filter", None, "content_filter"),
        ("length", "max_iterations", "max_iterations"),
    ],
)
async def test_why_it_finished(reason: str, closing: str | None, finish: str) -> None:
    reply, _ = await hear(TextDelta("x"), done(reason), closing=closing)
    assert (reply.finish, reply.closing) == (finish, closing is not None)


async def test_calls_are_put_together_from_their_pieces_by_index() -> None:
    reply, _ = await hear(
        CallDelta(1, "b", '{"x":'),
        CallDelta(0, "a", "{}"),
        CallDelta(1, "", " 1}"),
        done("tool_calls"),
    )
    assert [summary(each) for each in reply.calls] == [
        ("a", {}, None, False),
        ("b", {"x": 1}, None, False),
    ]
    assert len({each.call_id for each in reply.calls}) == 2
    assert all(each.call_id.startswith("tc_") for each in reply.calls)


async def test_a_name_is_whole_text_as_its_arguments_are() -> None:
    reply, _ = await hear(CallDelta(0, "a\ud83d", '{"x":"\ud83d"}'), done("tool_calls"))
    assert [summary(each) for each in reply.calls] == [("a\ufffd", {"x": "\ufffd"}, None, False)]


LONE = {"\ufffd": ["a\N{GRINNING FACE}", {"b": "\ufffd"}]}


@pytest.mark.parametrize(
    ("text", "arguments", "raw"),
    [
        ("", {}, None),
        ("  ", {}, None),
        ('{"a": 1, "a": 2}', {"a": 2}, None),
        ('{"é": "\\ud800"}', {"é": "\ufffd"}, None),
        ('{"\\uDfff": ["a\\ud83d\\ude00", {"b": "\ud800"}]}', LONE, None),
        ("{", {}, "{"),
        ("[]", {}, "[]"),
        ('"text"', {}, '"text"'),
        ("1", {}, "1"),
        ('{"a": NaN}', {}, '{"a": NaN}'),
        ('{"a": -Infinity}', {}, '{"a": -Infinity}'),
        ("{'a': 1}", {}, "{'a': 1}"),
        ('{"a": 1} trailing', {}, '{"a": 1} trailing'),
        ("[" * 100_000, {}, "[" * 100_000),
        ('{"n":' + "9" * 5_000 + "}", {}, '{"n":' + "9" * 5_000 + "}"),
    ],
    ids=range(15),
)
async def test_arguments_that_are_no_object_stay_text(
    text: str, arguments: object, raw: str | None
) -> None:
    reply, _ = await hear(CallDelta(0, "t", text), done("tool_calls"))
    assert [summary(each) for each in reply.calls] == [("t", arguments, raw, False)]


@pytest.mark.parametrize(
    ("levels", "is_read"), [(2, True), (200, True), (201, False), (900, False), (50_000, False)]
)
async def test_arguments_that_are_nested_too_deeply_stay_text(levels: int, is_read: bool) -> None:
    """JSON_DEPTH: nothing that comes after has to follow them down."""
    inner = levels - 1
    text = '{"a": ' + "[" * inner + "]" * inner + "}"
    reply, _ = await hear(CallDelta(0, "t", text), done("tool_calls"))
    (call,) = reply.calls
    assert (call.arguments_text, bool(call.arguments)) == (
        (None, True) if is_read else (text, False)
    )


async def test_many_brackets_side_by_side_are_not_deep() -> None:
    text = '{"a": [' + "[]," * 500 + "{}]}"
    reply, _ = await hear(CallDelta(0, "t", text), done("tool_calls"))
    assert len(reply.calls[0].arguments["a"]) == 501


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', ("t", {"a": 1}, None, False)),
        ('{"a": ', ("t", {}, '{"a": ', True)),
        ("", ("t", {}, "", True)),
    ],
)
async def test_the_last_call_of_a_cut_reply_is_cut_unless_it_is_whole(
    text: str, expected: object
) -> None:
    reply, _ = await hear(CallDelta(0, "first", "{"), CallDelta(1, "t", text), done("length"))
    first, last = reply.calls
    assert summary(first) == ("first", {}, "{", False)
    assert summary(last) == expected


async def test_a_closing_reply_has_no_calls() -> None:
    reply, _ = await hear(TextDelta("x"), CallDelta(0, "t", "{}"), done(), closing="stop")
    assert reply.calls == ()


async def test_a_stream_that_ends_without_its_last_event_may_be_tried_again() -> None:
    with pytest.raises(ModelUnavailable, match="ended in the middle"):
        await hear(TextDelta("x"))


async def test_waiting_for_the_limits_of_a_model_is_no_time_of_work() -> None:
    clock = FakeClock()
    budget = Budget(Allowance(seconds=30), Spent(), clock)
    limit = Deadline(asyncio.current_task(), 0.01)
    waits = WorkTime(limit, budget)
    with limit:
        waits.pause_or_resume(Waiting())
        clock.advance(100)
        await SystemClock().sleep(0.03)
        waits.pause_or_resume(Waiting(100.0))
        assert not limit.is_over
    assert (budget.seconds_left(), waits.waited_ms) == (30, 100_000)


class Seen(Bus):
    """A bus with a reader, which keeps the outputs that were shown."""

    def __init__(self, *, followed: bool = True) -> None:
        super().__init__()
        self._reader = self.subscribe(LogId("conv_1"), 100) if followed else None

    def partials(self) -> list[object]:
        items = [] if self._reader is None else self._reader.take()
        return [item.partial for item in items if isinstance(item, OutputSoFar)]


async def watched(bus: Bus, *events: ModelEvent, output: object = dict[str, int]) -> LiveReply:
    contract, live = contract_of(output), LiveReply(LogId("conv_1"), TaskId("task_1"), 3, 2)
    assert contract is not None
    world = World(FakeClock(), Limits(), new_id)
    reader = ReplyReader(bus, world, live, work_time(world), contract=contract)
    assert (await reader.listen(Told(*events), REQUEST, None)).finish == "stop"
    return live


async def test_the_name_of_an_answer_may_come_in_pieces() -> None:
    bus = Seen()
    union: list[ModelEvent] = [
        CallDelta(0, "final_"),
        CallDelta(0, "answer"),
        CallDelta(0, "", '{"a": 1'),
        done(),
    ]
    await watched(bus, *union)
    assert bus.partials() == [{"a": 1}]


async def test_the_answer_may_be_any_call_of_a_reply() -> None:
    bus = Seen()
    calls: list[ModelEvent] = [
        CallDelta(0, "look", "{}"),
        CallDelta(3, "final_answer", '{"a": 1}'),
        done(),
    ]
    await watched(bus, *calls)
    assert bus.partials() == [{"a": 1}]


async def test_what_did_not_change_is_not_shown_again() -> None:
    bus = Seen()
    pieces = [CallDelta(0, "", each) for each in ("{", " ", '"a"', ":", " 1", " ", "}")]
    await watched(bus, CallDelta(0, "final_answer"), *pieces, done())
    assert bus.partials() == [{}, {"a": 1}]


async def test_without_readers_nothing_is_read_until_somebody_comes() -> None:
    bus = Seen(followed=False)
    live = await watched(bus, CallDelta(0, "final_answer", '{"a": 1'), done())
    assert bus.partials() == []
    assert live.output is not None
    assert live.output() == {"a": 1}


async def test_a_reader_that_comes_late_sees_the_output_so_far() -> None:
    bus = Seen(followed=False)
    live, contract = LiveReply(LogId("conv_1"), TaskId("task_1"), 3, 2), made(dict[str, int])
    world, late = World(FakeClock(), Limits(), new_id), list[Subscription]()

    class Followed(Told):
        """Is followed from its third piece on."""

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            yield CallDelta(0, "final_answer", '{"a": 1, "b": ')
            late.append(bus.subscribe(LogId("conv_1"), 100))
            yield CallDelta(0, "", "2}")
            yield done()

    reader = ReplyReader(bus, world, live, work_time(world), contract=contract)
    await reader.listen(Followed(), REQUEST, None)
    items = late[0].take()
    assert [each.partial for each in items if isinstance(each, OutputSoFar)] == [{"a": 1, "b": 2}]


async def test_a_streamed_output_is_no_cycle_for_the_collector() -> None:
    live = await watched(Seen(), CallDelta(0, "final_answer", '{"a": 1}'), done())
    assert live.output is not None
    output = weakref.ref(live.output)
    gc.disable()
    del live
    gc.enable()
    assert output() is None


async def test_a_reply_without_an_output_shows_none() -> None:
    bus = Seen()
    live = await watched(bus, TextDelta("Hello"), CallDelta(0, "look", '{"a": 1}'), done())
    assert bus.partials() == []
    assert live.output is not None
    assert live.output() is UNSET


class Note(BaseModel):
    """A text, perhaps for somebody."""

    text: str
    to: str = ""


class Ticket(BaseModel):
    """A report of a fault."""

    title: str


JSON_CARD = replace(SCRIPTED, json_schema=True)


def made(output: Any, mode: str = "tool") -> OutputContract:
    contract = contract_of(output, OutputForm(OutputMode(mode)))
    assert contract is not None
    return contract


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", UNSET),
        (" ", UNSET),
        ("{", {}),
        ('{"title', {}),
        ('{"title": "Fi', {"title": "Fi"}),
        ('{"title": "a\\', {"title": "a"}),
        ('{"title": "a\\ud83d', {"title": "a"}),
        ('{"title": "a", "sev', {"title": "a"}),
        ('{"n": 12', {"n": 12}),
        ('{"n": 12.', {}),
        ('{"n": tr', {}),
        ('{"n": [1, {"m": [', {"n": [1, {"m": []}]}),
        ('{"n": NaN', UNSET),
        ("I think", UNSET),
        ("[" * 10_000, UNSET),
    ],
)
def test_the_beginning_of_an_output_is_completed(text: str, value: Any) -> None:
    assert partial_output(made(Ticket), text, "final_answer") == value
    assert partial_output(made(Ticket, "native").for_model(JSON_CARD), text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("{", UNSET), ('{"value"', UNSET), ('{"value": [', []), ('{"value": [1, 2', [1, 2])],
)
def test_the_beginning_of_a_wrapped_output_has_no_wrapper(text: str, value: Any) -> None:
    assert partial_output(made(list[int]), text, "final_answer") == value
    assert partial_output(made(list[int], "native").for_model(JSON_CARD), text) == value
    assert partial_output(made(list[int]), "[1", "final_answer") is UNSET


def test_what_a_provider_adds_is_not_in_the_beginning_of_an_output() -> None:
    native = made(Note, "native").for_model(replace(JSON_CARD, api="openai", provider="openai"))
    assert partial_output(native, '{"text": "a", "to": null') == {"text": "a"}
