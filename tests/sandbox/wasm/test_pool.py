"""Steps are computed in threads, and a cancellation waits until the thread has left the script."""

import asyncio
import os
import sys
import threading

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.entry_timer import EntryTimer
from penstock.sandbox.wasm.pool import MAX_THREADS, Pool

NICENESS = 5 if sys.platform == "linux" else 0
"""Only Linux has a priority for each thread."""


def timer_of(seconds: float = 5) -> EntryTimer:
    return EntryTimer(SystemClock(), seconds, 30_000)


async def test_a_step_returns_its_result_from_a_thread() -> None:
    pool = Pool()
    assert await pool.compute(threading.get_ident, timer_of()) != threading.get_ident()
    pool.close()


async def test_busy_counts_running_steps() -> None:
    pool, go_on = Pool(), threading.Event()
    busy = [asyncio.create_task(pool.compute(go_on.wait, timer_of())) for _ in range(3)]
    await asyncio.wait(busy, timeout=0.02)
    assert pool.busy == 3
    go_on.set()
    await asyncio.gather(*busy)
    assert pool.busy == 0
    pool.close()


async def test_threads_have_a_lower_priority_than_the_loop() -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    pool, ours = Pool(), niceness()
    assert await pool.compute(niceness, timer_of()) == max(ours, NICENESS)
    assert niceness() == ours
    pool.close()


async def test_an_exception_of_a_step_reaches_the_caller() -> None:
    pool = Pool()
    with pytest.raises(ZeroDivisionError):
        await pool.compute(lambda: 1 // 0, timer_of())
    pool.close()


async def test_a_cancellation_returns_after_the_thread_has_left_the_script() -> None:
    pool, timer, went_in, out = Pool(), timer_of(), threading.Event(), []

    def step() -> None:
        went_in.set()
        while timer.ended is None:
            went_in.wait()
        out.append(timer.ended)

    task = asyncio.create_task(pool.compute(step, timer))
    await asyncio.to_thread(went_in.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert out == ["cancelled"]
    pool.close()


async def test_a_step_without_a_free_thread_times_out() -> None:
    pool, go_on = Pool(), threading.Event()
    busy = [asyncio.create_task(pool.compute(go_on.wait, timer_of())) for _ in range(MAX_THREADS)]
    await asyncio.wait(busy, timeout=0.05)
    with pytest.raises(TimeoutError, match="timeout"):
        await pool.compute(lambda: 1, timer_of(0.02))
    go_on.set()
    await asyncio.gather(*busy)
    pool.close()
