"""Host calls: started at once, recorded results first and in order, parked calls last."""

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.call_errors import ScriptError
from penstock.core.errors import LeaseLost, Signal, Suspend
from penstock.sandbox.bridge import HostCallResult
from penstock.sandbox.entry_calls import OpenCalls, begin
from penstock.sandbox.messages import Message
from penstock.testing.bridge import FakeBridge, never
from penstock.testing.clock import settle


def asked(number: int, name: str = "callTool", value: Any = None) -> Message:
    return Message(kind="ask", number=number, name=name, value=value, size=10)


def recorded(asked: Any) -> HostCallResult:
    return HostCallResult(value=asked, order=asked, at_ms=asked)


def raising(*signals: Signal) -> Any:
    left = list(signals)

    async def answer(_asked: Any) -> Any:
        raise left.pop(0)

    return answer


def calls_of(**answers: Any) -> tuple[OpenCalls, FakeBridge]:
    bridge = FakeBridge(answers)
    return OpenCalls(bridge, lambda: None), bridge


async def test_recorded_results_are_delivered_in_order_one_at_a_time() -> None:
    """L4: recorded results are handed over in the order in which they first settled."""
    calls, _ = calls_of(callTool=recorded, fetch=lambda _: "fresh")
    calls.ask(asked(1, "fetch"))
    for number, order in ((2, 30), (3, 10), (4, 20)):
        calls.ask(asked(number, value=order))
    batches = [[each.number for each in calls.take()] for _ in range(5)]
    assert batches == [[3], [4], [2], [1], []]


async def test_a_call_that_does_not_wait_settles_immediately() -> None:
    async def answer(_asked: Any) -> Any:
        return 1

    calls, _ = calls_of(callTool=answer)
    calls.ask(asked(1))
    assert not calls.can_move
    assert [each.number for each in calls.take()] == [1]


async def test_new_results_are_delivered_together() -> None:
    calls, _ = calls_of(callTool=lambda _: 1)
    calls.ask(asked(1))
    calls.ask(asked(2))
    first, second = calls.take()
    assert (first.number, second.number) == (1, 2)
    calls.put_back([second])
    calls.ask(asked(3))
    assert [each.number for each in calls.take()] == [2, 3]


async def test_a_dropped_call_is_cancelled_and_never_delivered() -> None:
    calls, _ = calls_of(callTool=never, fetch=lambda _: 1)
    calls.ask(asked(1))
    calls.ask(asked(2, "fetch"))
    assert (calls.can_move, calls.held) == (True, 20)
    calls.drop(1)
    calls.drop(2)
    assert (calls.can_move, calls.held, calls.take()) == (False, 0, [])
    await calls.close()


async def test_a_call_dropped_at_its_start_has_started_and_ends() -> None:
    seen: list[str] = []

    async def sleep() -> None:
        seen.append("begun")
        try:
            await settle(rounds=100)
        finally:
            seen.append("ended")

    async def answer(_asked: Any) -> None:
        await sleep()

    calls, _ = calls_of(timer=answer)
    calls.ask(asked(1, "timer"))
    calls.drop(1)
    await calls.close()
    await settle(rounds=3)
    assert seen == ["begun", "ended"]


async def test_several_questions_become_one_signal_in_order() -> None:
    """L6: … so all questions that can be asked are open at once."""
    calls, _ = calls_of(callTool=raising(Suspend("q2", "q3"), Suspend("q1")))
    calls.ask(asked(2))
    calls.ask(asked(1))
    await calls.finish()
    parking = calls.parking()
    assert isinstance(parking, Suspend)
    assert parking.awaited == ("q1", "q2", "q3")


async def test_one_question_is_the_signal_that_was_raised() -> None:
    signal = Suspend("q")
    calls, _ = calls_of(callTool=raising(signal))
    calls.ask(asked(1))
    await calls.finish()
    assert calls.parking() is signal


async def lose_later(_asked: Any) -> Any:
    await settle(rounds=1)
    raise LeaseLost


async def test_a_lost_lease_is_raised_by_the_next_check() -> None:
    calls, _ = calls_of(callTool=lose_later, fetch=never)
    calls.ask(asked(1, "fetch"))
    calls.ask(asked(2))
    with pytest.raises(LeaseLost):
        await calls.finish()
    with pytest.raises(LeaseLost):
        calls.take()
    await calls.close()


async def test_a_lease_lost_before_any_wait_is_raised_by_ask() -> None:
    calls, _ = calls_of(callTool=raising(LeaseLost()), fetch=never)
    calls.ask(asked(1, "fetch"))
    with pytest.raises(LeaseLost):
        calls.ask(asked(2))
    await calls.close()


async def test_timers_are_dropped_at_the_end_and_others_are_named() -> None:
    calls, _ = calls_of(callTool=never)
    calls.ask(asked(1, "timer", {"ms": 3_000_000}))
    calls.ask(asked(2))
    assert calls.unawaited() == ["callTool"]
    await calls.close()


async def test_a_call_with_refused_arguments_does_not_reach_the_host() -> None:
    calls, bridge = calls_of(callTool=lambda _: 1)
    calls.ask(replace(asked(1), problem="too deep"))
    [delivery] = calls.take()
    assert (delivery.kind, delivery.value["name"]) == ("refuse", "TypeError")
    assert (delivery.value["message"], bridge.asked) == ("too deep", [])


async def test_a_number_identifies_one_call() -> None:
    calls, _ = calls_of(callTool=never)
    calls.ask(asked(1))
    with pytest.raises(ScriptError, match="twice under one number"):
        calls.ask(asked(1))
    await calls.close()


async def test_a_refusal_is_delivered_with_its_details() -> None:
    calls, _ = calls_of()
    calls.ask(asked(1))
    [delivery] = calls.take()
    assert delivery.kind == "refuse"
    assert delivery.value["name"] == "FloError"
    assert delivery.value["code"] == "NOT_AVAILABLE"


DONE = HostCallResult(at_ms=1)
PLACE: ContextVar[str] = ContextVar("PLACE")


def waiting(
    future: "asyncio.Future[Any]", seen: list[Any] | None = None
) -> "asyncio.Task[HostCallResult]":
    """Start work that waits for a future and records its result."""

    async def work() -> HostCallResult:
        try:
            result = await future
        except asyncio.CancelledError as error:
            result = error.args
            raise
        finally:
            (seen if seen is not None else []).append(result)
        return DONE

    started = begin(work())
    assert isinstance(started, asyncio.Task)
    return started


def pending() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


async def test_work_that_never_waits_has_its_result() -> None:
    async def work() -> HostCallResult:
        return DONE

    assert begin(work()) is DONE
    await settle()


async def test_an_error_before_the_first_wait_is_raised_by_begin() -> None:
    async def work() -> HostCallResult:
        raise Suspend("q")

    with pytest.raises(Suspend):
        begin(work())
    await settle()


async def test_work_starts_in_its_own_task_and_context() -> None:
    seen: list[Any] = []

    async def work() -> HostCallResult:
        PLACE.set("inside")
        for _ in range(2):
            seen.append((asyncio.current_task(), PLACE.get()))
            await settle(rounds=1)
        return DONE

    PLACE.set("outside")
    here, started = asyncio.current_task(), begin(work())
    assert (asyncio.current_task(), PLACE.get()) == (here, "outside")
    assert isinstance(started, asyncio.Task)
    assert await started is DONE
    assert seen == [(started, "inside")] * 2


@pytest.mark.parametrize("is_quick", [True, False])
async def test_work_continues_when_its_future_is_done(*, is_quick: bool) -> None:
    future, seen = pending(), list[Any]()
    task = waiting(future, seen)
    if not is_quick:
        await settle()
    future.set_result("found")
    assert (await task, seen) == (DONE, ["found"])


async def test_several_calls_can_wait_for_one_future() -> None:
    future = pending()
    tasks = [waiting(future) for _ in range(3)]
    future.set_result(None)
    assert await asyncio.gather(*tasks) == [DONE] * 3


@pytest.mark.parametrize("rounds", [0, 1])
async def test_a_cancellation_reaches_the_awaited_future(rounds: int) -> None:
    future, seen = pending(), list[Any]()
    task = waiting(future, seen)
    await settle(rounds=rounds)
    task.cancel("enough")
    await asyncio.wait([task])
    assert (task.cancelled(), future.cancelled(), seen) == (True, True, [("enough",)])


@pytest.mark.parametrize("rounds", [0, 1])
async def test_an_awaited_task_is_cancelled_first(rounds: int) -> None:
    ended: list[str] = []

    async def inner() -> None:
        try:
            await pending()
        finally:
            await settle(rounds=1)
            ended.append("inner")

    async def outer() -> HostCallResult:
        try:
            await asyncio.ensure_future(inner())
        finally:
            ended.append("outer")
        return DONE

    started = begin(outer())
    assert isinstance(started, asyncio.Task)
    await settle(rounds=rounds)
    started.cancel()
    await asyncio.wait([started])
    assert ended == (["inner", "outer"] if rounds else ["outer"])


async def test_a_timeout_entered_before_the_first_wait_expires() -> None:
    async def work() -> HostCallResult:
        async with asyncio.timeout(0.001):
            await pending()
        return DONE

    started = begin(work())
    assert isinstance(started, asyncio.Task)
    with pytest.raises(TimeoutError):
        await started


async def test_an_eager_call_can_be_awaited() -> None:
    future = pending()
    started = waiting(future)
    future.set_result(1)
    assert await started == DONE
