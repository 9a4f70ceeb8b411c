"""Tools that swallow their cancellation, each in its own way."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from penstock.testing.clock import settle
from tests.kit.tools import Act


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


STARTED: list[asyncio.Future[Any]] = []


def begin() -> "asyncio.Future[Any]":
    """Begin a task that only `let_go` ends."""
    STARTED.append(asyncio.ensure_future(swallow()))
    return STARTED[-1]


async def let_go() -> None:
    while STARTED:
        task = STARTED.pop()
        while not task.done():
            task.cancel()
            await settle(rounds=2)


async def swallow(times: int = 200) -> str:
    """Go on whenever it is cancelled, so many times over."""
    for _ in range(times):
        with suppress(asyncio.CancelledError):
            await for_ever()
    return "done"


async def in_a_task() -> Any:
    return await begin()


async def gathered() -> Any:
    return await asyncio.gather(begin(), begin())


async def in_a_finally() -> None:
    try:
        await swallow()
    finally:
        await swallow()


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        STARTED.append(group.create_task(swallow()))


STUBBORN = [swallow, in_a_task, gathered, in_a_finally, in_a_group]


def stubborn(work: Callable[[], Awaitable[Any]], **spec: Any) -> Act:
    async def deed(input: Any, invocation: Any) -> Any:
        return await work()

    return Act("stubborn", deed, **spec)
