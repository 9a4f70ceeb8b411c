"""Figures about the use of tools, counted from events."""

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, update

from penstock.core.call import CallPath, ToolCall
from penstock.core.call_errors import (
    CallError,
    Interrupted,
    InvalidInput,
    LoopDetected,
    Rejected,
    ToolFailed,
)
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, Event, ReplyReceived, TaskStarted
from penstock.core.events.flow_events import AgentStarted, HandedOff
from penstock.core.ids import CallId, MessageId
from penstock.core.limits import Limits
from penstock.core.messages import Usage
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.metrics import (
    PAGE,
    DurationHistogram,
    Metrics,
    MetricsCounter,
    MetricsRange,
    ToolMetrics,
    count,
    tokens,
)
from penstock.store.tables import events
from penstock.testing.clock import FakeClock
from tests.kit.assistant import agent
from tests.kit.log_entries import CHAT, message, opened, started
from tests.kit.log_entries import settled as done
from tests.kit.server import served
from tests.kit.tools import Act


def settled(error: CallError | None = None, duration: int = 5) -> CallSettled:
    """A call that succeeded, or did not."""
    envelope = Envelope.success("x") if error is None else error.envelope()
    return CallSettled(
        tool_id="add",
        envelope=envelope,
        call_id=CallId("tc_1"),
        context="12345",
        duration_ms=duration,
        ran=not isinstance(error, LoopDetected | Rejected),
    )


def reply(*calls: ToolCall, closing: bool = False) -> ReplyReceived:
    """A reply that asks for these calls."""
    return ReplyReceived(
        iteration=1, base=1, text="", message_id=MessageId("m"), calls=calls, closing=closing
    )


def test_each_outcome_is_counted_by_its_kind() -> None:
    """`blocked` = LOOP_DETECTED, not in `failed`; the rate is of those that were tried."""
    tally = ToolMetrics()
    for error in (None, None, ToolFailed("x", "NO_PAPER"), LoopDetected(), Rejected()):
        tally.settle(settled(error))
    shown = tally.to_wire("add")
    assert (shown["calls"], shown["succeeded"], shown["failed"]) == (5, 2, 1)
    assert (shown["blocked"], shown["rejected"]) == (1, 1)
    assert shown["successRate"] == 2 / 3
    assert shown["errors"] == {"LOOP_DETECTED": 1, "NO_PAPER": 1, "REJECTED": 1}
    assert shown["tokens"]["results"] == 10


def test_a_call_refused_before_it_ran_has_no_duration() -> None:
    """`calls` = settled calls of any depth; duration: run time without parked time."""
    tally = ToolMetrics()
    for ran, error in ((False, InvalidInput()), (True, Interrupted()), (True, ToolFailed("x"))):
        envelope = error.envelope()
        tally.settle(CallSettled(tool_id="add", envelope=envelope, ran=ran, duration_ms=9 * ran))
    assert (tally.calls, tally.failed, tally.times.buckets) == (3, 3, {9: 1})


def test_a_host_call_of_a_script_is_not_a_tool_call() -> None:
    done = Envelope.success(None)
    of_host = CallSettled(tool_id="state.get", envelope=done, ran=False)
    assert count([("task_1", None, of_host)], {}) == {}
    of_tool = CallSettled(tool_id="state.get", envelope=done)
    assert count([("task_1", None, of_tool)], {})["state.get"].calls == 1


def test_without_calls_there_is_no_rate_and_no_time() -> None:
    shown = ToolMetrics().to_wire("add")
    assert shown["successRate"] is None
    assert shown["durationMs"] == {"mean": None, "p50": None, "p95": None, "max": None}


def times(*durations_ms: int) -> DurationHistogram:
    found = DurationHistogram()
    for each in durations_ms:
        found.add(each)
    return found


def test_times_are_the_usual_and_the_longest() -> None:
    shown = times(*range(1, 101)).to_wire()
    assert shown == {"mean": 50.5, "p50": 51, "p95": 96, "max": 100}
    assert times(7).to_wire() == {"mean": 7, "p50": 7, "p95": 7, "max": 7}


def test_percentiles_come_from_fixed_buckets() -> None:
    """The page: "percentiles from fixed buckets (≤ 10 % off)"."""
    found = times(*range(100_000))
    assert len(found.buckets) < 500
    assert found.to_wire()["p95"] == pytest.approx(95_000, rel=0.1)
    assert times(1234).to_wire() == {"mean": 1234, "p50": 1234, "p95": 1234, "max": 1234}


def test_tokens_are_counted_where_they_were_spent() -> None:
    asked = ToolCall(CallId("tc_1"), "add", {"a": 1})
    happened: list[tuple[str | None, CallPath | None, Event]] = [
        ("task_1", None, TaskStarted(offered=("add", "mail"))),
        ("task_1", None, reply(asked)),
        ("task_1", None, settled()),
        ("task_1", None, reply()),
        ("task_1", None, reply(closing=True)),
        ("task_2", None, reply()),
    ]
    found = count(happened, {"add": 10, "mail": 20})
    assert found["add"].arguments == tokens('{"a":1}')
    assert (found["add"].definitions, found["mail"].definitions) == (20, 40)
    assert found["mail"].calls == 0


def test_tokens_of_models_are_counted_with_those_of_caches() -> None:
    """By the model that answered; a sum has a price if each reply has one."""
    cached = Usage(input_tokens=9, output_tokens=1, cached_tokens=5, cost_usd=0.5)
    written = Usage(input_tokens=3, cache_write_tokens=2, reasoning_tokens=1, cost_usd=0.25)
    counter = MetricsCounter({})
    happened: list[Event] = [
        reply(),
        TaskStarted(model="small"),
        replace(reply(), usage=cached),
        replace(reply(), usage=written),
        replace(reply(), usage=cached, model="large"),
        HandedOff(agent="b", previous="a", model="other", offered=("mail",)),
        replace(reply(), usage=replace(written, cost_usd=None)),
    ]
    for event in happened:
        counter.take("task_1", None, event)
    counter.take("task_1", CallPath("task_1/1/subagent#1"), replace(reply(), usage=cached))
    assert counter.models == {
        "unknown": Usage(model_calls=1),
        "small": Usage(
            input_tokens=12,
            output_tokens=1,
            model_calls=2,
            cost_usd=0.75,
            cached_tokens=5,
            cache_write_tokens=2,
            reasoning_tokens=1,
        ),
        "large": replace(cached, model_calls=1),
        "other": replace(written, model_calls=1, cost_usd=None),
    }
    assert [each["model"] for each in counter.models_to_wire()] == sorted(counter.models)


def test_calls_of_a_nested_agent_do_not_count_for_the_chat() -> None:
    frame = CallPath("task_1/1/subagent#1")
    asked = ToolCall(CallId("tc_1"), "add", {"a": 1})
    happened: list[tuple[str | None, CallPath | None, Event]] = [
        ("task_1", None, TaskStarted(offered=("mail",))),
        ("task_1", frame, AgentStarted(agent="scout", message="Task: t", system="s")),
        ("task_1", frame, reply(asked)),
        ("task_1", CallPath(f"{frame}/1/add#1"), settled()),
        ("task_1", frame, replace(settled(), tool_id="subagent")),
    ]
    found = count(happened, {"mail": 20})
    assert {name: each.calls for name, each in found.items()} == {"subagent": 1}


async def test_metrics_can_be_limited_to_one_agent_and_a_period() -> None:
    """From the first moment on, up to the last, which is not in it."""
    clock = FakeClock()
    model = ScriptedModel([call("add"), say("Done.")])
    async with served(model=model, tools=[Act("add")], clock=clock) as server:
        await server.runtime.chat("Add")
        now, metrics = clock.now(), server.database_parts.metrics
        later = now + 1
        spans = [
            (("assistant", now, later), 1),
            (("assistant", now - 9, now), 0),
            (("assistant", later, now + 9), 0),
            (("clerk", now, later), 0),
        ]
        for (agent, since, until), calls in spans:
            span = MetricsRange(agent=agent, since=Moment(since), until=Moment(until))
            found = await metrics.of_agent(span, {"add": 7})
            assert sum(tally.calls for tally in found.tools.values()) == calls, span


async def test_events_are_read_a_page_at_a_time() -> None:
    clock = FakeClock()
    asked = sum((call("add", n=number) for number in range(30)), ScriptedReply())
    model = ScriptedModel([asked, asked, asked, asked, asked, asked, asked, say("Done.")])
    looks = agent(loop_max_repeats=0, loop_cycles=False, loop_no_progress=0)
    async with served(model=model, tools=[Act("add")], clock=clock, agents=[looks]) as server:
        await server.runtime.chat("Add")
        span = MetricsRange(agent="assistant", since=clock.now(), until=Moment(clock.now() + 1))
        found = await server.database_parts.metrics.of_agent(span, {})
    assert found.tools["add"].calls == 210 > PAGE


async def test_an_unreadable_row_is_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, blobs = FakeClock(), open_blobs("memory:///")
    database = await open_database("sqlite://", limits=Limits())
    log = SqlLog(database, blobs, clock)
    await log.send(CHAT, [opened(), message()])
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    await log.append(lease, [started(), done("a"), done("b")])
    await database.write(spoil)
    span = MetricsRange(agent="assistant", since=clock.now(), until=Moment(clock.now() + 1))
    found = await Metrics(database, blobs).of_agent(span, {})
    assert found.tools["t"].calls == 1
    assert "event 4 of log 'conv_1'" in caplog.text
    await database.close()


def spoil(connection: Connection) -> None:
    connection.execute(update(events).where(events.c.seq == 4).values(body='{"tool_id":'))


def test_a_token_is_four_characters_or_less() -> None:
    assert [tokens("x" * length) for length in (0, 1, 4, 5)] == [0, 1, 1, 2]
