"""Work that starts immediately, as if its task had already made its first step."""

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from penstock.core.errors import Suspend
from penstock.sandbox.bridge import HostCallResult
from penstock.sandbox.eager_call import begin
from penstock.testing.clock import settle

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

    begun = begin(work())
    assert isinstance(begun, asyncio.Task)
    return begun


def pending() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


async def test_what_need_not_wait_has_ended() -> None:
    async def work() -> HostCallResult:
        return DONE

    assert begin(work()) is DONE
    await settle()


async def test_what_is_raised_before_a_wait_is_raised_here() -> None:
    async def work() -> HostCallResult:
        raise Suspend("q")

    with pytest.raises(Suspend):
        begin(work())
    await settle()


async def test_it_begins_in_the_task_and_the_context_in_which_it_goes_on() -> None:
    seen: list[Any] = []

    async def work() -> HostCallResult:
        PLACE.set("inside")
        for _ in range(2):
            seen.append((asyncio.current_task(), PLACE.get()))
            await settle(rounds=1)
        return DONE

    PLACE.set("outside")
    here, begun = asyncio.current_task(), begin(work())
    assert (asyncio.current_task(), PLACE.get()) == (here, "outside")
    assert isinstance(begun, asyncio.Task)
    assert await begun is DONE
    assert seen == [(begun, "inside")] * 2


@pytest.mark.parametrize("is_quick", [True, False])
async def test_it_goes_on_when_what_it_waits_for_is_there(*, is_quick: bool) -> None:
    future, seen = pending(), list[Any]()
    task = waiting(future, seen)
    if not is_quick:
        await settle()
    future.set_result("found")
    assert (await task, seen) == (DONE, ["found"])


async def test_several_may_wait_for_one_thing() -> None:
    future = pending()
    tasks = [waiting(future) for _ in range(3)]
    future.set_result(None)
    assert await asyncio.gather(*tasks) == [DONE] * 3


@pytest.mark.parametrize("rounds", [0, 1])
async def test_a_cancellation_reaches_what_it_waits_for(rounds: int) -> None:
    future, seen = pending(), list[Any]()
    task = waiting(future, seen)
    await settle(rounds=rounds)
    task.cancel("enough")
    await asyncio.wait([task])
    assert (task.cancelled(), future.cancelled(), seen) == (True, True, [("enough",)])


@pytest.mark.parametrize("rounds", [0, 1])
async def test_a_task_that_it_waits_for_is_cancelled_first(rounds: int) -> None:
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

    begun = begin(outer())
    assert isinstance(begun, asyncio.Task)
    await settle(rounds=rounds)
    begun.cancel()
    await asyncio.wait([begun])
    assert ended == (["inner", "outer"] if rounds else ["outer"])


async def test_a_timeout_that_began_before_the_first_wait_ends_it() -> None:
    async def work() -> HostCallResult:
        async with asyncio.timeout(0.001):
            await pending()
        return DONE

    begun = begin(work())
    assert isinstance(begun, asyncio.Task)
    with pytest.raises(TimeoutError):
        await begun


async def test_whoever_awaits_it_has_its_outcome() -> None:
    future = pending()
    begun = waiting(future)
    future.set_result(1)
    assert await begun == DONE
