"""Threads for tools that block."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from penstock.core.errors import OutOfResources
from penstock.testing.clock import FakeClock, settle
from penstock.tools.running import BlockingDetector, Deadline, Threads
from tests.kit.resources import no_threads_left
from tests.tools.stubborn import for_ever


async def test_the_caller_gets_the_result_or_error_of_the_function() -> None:
    threads = Threads(2)
    assert await threads.run(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    threads.close()


async def test_a_function_that_no_thread_can_be_started_for_never_runs() -> None:
    """Else a write that was reported as failed would be done later, by the next thread."""
    threads, ran = Threads(2), list[str]()
    with no_threads_left(), pytest.raises(OutOfResources):
        await threads.run(lambda: ran.append("first"))
    await threads.run(lambda: ran.append("second"))
    await threads.run(lambda: ran.append("third"))
    assert ran == ["second", "third"]
    threads.close()


async def test_a_function_waits_for_a_busy_thread_where_no_other_can_be_started() -> None:
    threads, release = Threads(2), threading.Event()
    first = asyncio.ensure_future(threads.run(lambda: release.wait(5)))
    await settle(rounds=2)
    with no_threads_left():
        second = asyncio.ensure_future(threads.run(lambda: 2))
        await settle(rounds=2)
    assert not second.done()
    release.set()
    assert (await first, await second) == (True, 2)
    both = threading.Barrier(2)
    await asyncio.gather(*[threads.run(lambda: both.wait(5)) for _ in range(2)])
    threads.close()


async def test_at_most_max_threads_run_at_once() -> None:
    threads, release, running = Threads(2), threading.Event(), list[str]()

    def work() -> str:
        running.append(threading.current_thread().name)
        release.wait(5)
        return threading.current_thread().name

    waiting = [asyncio.ensure_future(threads.run(work)) for _ in range(5)]
    while len(running) < 2:
        await settle(rounds=1)
    assert len(running) == 2
    release.set()
    assert set(await asyncio.gather(*waiting)) == {"penstock-tool-1", "penstock-tool-2"}
    threads.close()


async def test_an_idle_thread_is_used_again() -> None:
    threads = Threads(64)
    names = {await threads.run(lambda: threading.current_thread().name) for _ in range(50)}
    assert len(names) < 50
    threads.close()


async def test_a_job_whose_caller_was_cancelled_is_not_started() -> None:
    threads, release, done = Threads(1), threading.Event(), list[int]()
    first = asyncio.ensure_future(threads.run(lambda: release.wait(5)))
    second = asyncio.ensure_future(threads.run(lambda: done.append(2)))
    await settle(rounds=2)
    second.cancel()
    await settle(rounds=2)
    release.set()
    await first
    await threads.run(lambda: done.append(3))
    assert done == [3]
    threads.close()


async def test_the_result_of_a_thread_that_was_left_is_dropped() -> None:
    threads, release = Threads(1), threading.Event()
    left = asyncio.ensure_future(threads.run(lambda: release.wait(5)))
    await settle(rounds=2)
    left.cancel()
    release.set()
    assert await threads.run(lambda: "next") == "next"
    threads.close()


async def test_a_closed_pool_refuses_work() -> None:
    threads = Threads(1)
    await threads.run(int)
    threads.close()
    with pytest.raises(RuntimeError, match="the runtime was closed"):
        await threads.run(int)


def test_a_stuck_thread_does_not_keep_a_process_alive() -> None:
    async def leave() -> threading.Thread:
        threads = Threads(1)
        return await threads.run(threading.current_thread)  # type: ignore[no-any-return]

    assert asyncio.run(leave()).daemon


async def test_a_waiting_thread_is_replaced_and_the_bound_holds_afterwards() -> None:
    threads, loop = Threads(1), asyncio.get_running_loop()

    def outer(depth: int) -> str:
        if not depth:
            return threading.current_thread().name
        inner = threads.run(lambda: outer(depth - 1))
        with threads.lent():
            return str(asyncio.run_coroutine_threadsafe(inner, loop).result())

    async with asyncio.timeout(5):
        assert await threads.run(lambda: outer(3)) == "penstock-tool-4"
        several = [threads.run(lambda: outer(2)) for _ in range(3)]
        assert len(await asyncio.gather(*several)) == 3
    release, running = threading.Event(), list[int]()

    def work() -> None:
        running.append(1)
        release.wait(5)

    waiting = [asyncio.ensure_future(threads.run(work)) for _ in range(3)]
    while not running:
        await settle(rounds=1)
    assert len(running) == 1
    release.set()
    await asyncio.gather(*waiting)
    threads.close()


async def test_finish_makes_a_cancelled_caller_wait_for_started_work() -> None:
    threads, started, release, done = Threads(1), threading.Event(), threading.Event(), list[int]()

    def work() -> None:
        started.set()
        release.wait(5)
        done.append(1)

    caller = asyncio.ensure_future(threads.finish(work))
    while not started.is_set():
        await settle(rounds=1)
    for _ in range(2):
        caller.cancel()
        await settle(rounds=2)
    assert not caller.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert done == [1]
    threads.close()


async def test_finish_never_starts_work_of_a_cancelled_caller() -> None:
    threads, release, ran = Threads(1), threading.Event(), list[str]()
    busy = asyncio.ensure_future(threads.run(lambda: release.wait(5)))
    await settle(rounds=2)
    caller = asyncio.ensure_future(threads.finish(lambda: ran.append("cancelled")))
    await settle(rounds=2)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    release.set()
    await busy
    await threads.finish(lambda: ran.append("next"))
    with pytest.raises(ZeroDivisionError):
        await threads.finish(lambda: 1 // 0)
    assert ran == ["next"]
    threads.close()


Work = Callable[[FakeClock], Awaitable[str]]


async def quick(clock: FakeClock) -> str:
    clock.advance(0.1)
    await settle(rounds=1)
    clock.advance(0.1)
    return "done"


async def slow(clock: FakeClock) -> str:
    await settle(rounds=3)
    clock.advance(0.5)
    await settle(rounds=1)
    clock.advance(0.7)
    return "done"


async def raises(clock: FakeClock) -> str:
    clock.advance(0.5)
    raise ValueError("own")


@pytest.mark.parametrize(("work", "told"), [(quick, []), (slow, [0.5]), (raises, [0.5])])
async def test_the_first_long_step_is_reported_once(work: Work, told: list[float]) -> None:
    clock, heard = FakeClock(), list[float]()
    coroutine = work(clock)
    assert asyncio.iscoroutine(coroutine)
    with suppress(ValueError):
        assert await BlockingDetector(coroutine, clock.monotonic, 0.1001, heard.append) == "done"
    assert heard == told


async def test_a_cancel_reaches_the_work() -> None:
    clock, seen = FakeClock(), list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")

    async def outer() -> None:
        await BlockingDetector(work(), clock.monotonic, 1, lambda _: None)

    task = asyncio.create_task(outer())
    await settle(rounds=2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_a_detected_coroutine_can_still_await() -> None:
    clock, event = FakeClock(), asyncio.Event()

    async def work() -> str:
        async with asyncio.timeout(5):
            await event.wait()
        return "woken"

    watched = BlockingDetector(work(), clock.monotonic, 1, lambda _: None)
    asyncio.get_running_loop().call_soon(event.set)
    assert await watched == "woken"


def test_work_that_is_never_awaited_can_be_closed() -> None:
    work = settle()
    watched = BlockingDetector(work, FakeClock().monotonic, 1, lambda _: None)
    watched.close()
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


async def test_a_detected_coroutine_may_await_after_an_error() -> None:
    clock, heard = FakeClock(), list[float]()

    async def work() -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        clock.advance(0.5)
        await settle(rounds=2)
        return "cleaned up"

    running = asyncio.ensure_future(
        _within(BlockingDetector(work(), clock.monotonic, 0.1, heard.append))
    )
    await settle(rounds=2)
    running.cancel()
    assert await running == "cleaned up"
    assert heard == [0.5]


async def _within(work: Awaitable[str]) -> str:
    return await work


def here() -> "asyncio.Task[None]":
    task = asyncio.current_task()
    assert task is not None
    return task


async def test_work_that_ends_in_time_is_not_cancelled() -> None:
    with Deadline(here(), 60) as deadline:
        pass
    assert not deadline.is_over
    assert here().cancelling() == 0


async def test_work_that_ended_in_time_is_not_cancelled_later() -> None:
    with Deadline(here(), 0) as deadline:
        pass
    await settle()
    assert (deadline.is_over, here().cancelling()) == (False, 0)


@pytest.mark.parametrize("seconds", [0, 0.001])
async def test_work_over_its_deadline_is_a_timeout(seconds: float) -> None:
    deadline = Deadline(here(), seconds)
    with pytest.raises(TimeoutError), deadline:
        await for_ever()
    assert deadline.is_over
    assert here().cancelling() == 0


async def test_a_cancellation_from_outside_stays_one() -> None:
    async def work() -> None:
        with Deadline(here(), 60):
            await for_ever()

    task = asyncio.ensure_future(work())
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_from_outside_wins_over_a_deadline_at_the_same_time() -> None:
    async def work() -> None:
        with Deadline(here(), 0):
            asyncio.get_running_loop().call_soon(here().cancel)
            await for_ever()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.ensure_future(work())


async def test_the_inner_of_two_deadlines_ends_the_inner_work_alone() -> None:
    with Deadline(here(), 60) as outer:
        with pytest.raises(TimeoutError), Deadline(here(), 0):
            await for_ever()
        assert not outer.is_over
    assert here().cancelling() == 0


async def test_work_that_fails_during_its_cancellation_keeps_its_error() -> None:
    with pytest.raises(KeyError), Deadline(here(), 0):
        try:
            await for_ever()
        finally:
            raise KeyError
    assert here().cancelling() == 0


async def test_work_that_swallows_its_cancellation_continues() -> None:
    with Deadline(here(), 0) as deadline:
        with pytest.raises(asyncio.CancelledError):
            await for_ever()
        said = "here"
    assert (said, deadline.is_over, here().cancelling()) == ("here", True, 0)


async def test_a_deadline_in_a_task_that_is_being_cancelled_is_no_timeout() -> None:
    async def work() -> str:
        try:
            await for_ever()
        except asyncio.CancelledError:
            with pytest.raises(TimeoutError), Deadline(here(), 0):
                await for_ever()
        return "cleaned up"

    task = asyncio.ensure_future(work())
    asyncio.get_running_loop().call_soon(task.cancel)
    assert await task == "cleaned up"
