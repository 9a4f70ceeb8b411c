"""An async tool that blocks the event loop is reported."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from penstock.core.foreign_code import BlockingDetector
from penstock.testing.clock import FakeClock, settle

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
