"""Threads for tools that block."""

import asyncio
import threading

import pytest

from penstock.core.errors import OutOfResources
from penstock.resources.threads import Threads
from penstock.testing.clock import settle
from tests.kit.exhausted_process import no_threads_left


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

        async def inner() -> str:
            return str(await threads.run(lambda: outer(depth - 1)))

        with threads.lent():
            return str(asyncio.run_coroutine_threadsafe(inner(), loop).result())

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
