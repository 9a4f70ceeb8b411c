"""Turns at processes: fair among tasks, and without deadlock."""

import asyncio
from collections.abc import Callable

import pytest
from anyio.lowlevel import checkpoint

from penstock.core.call_errors import Cancelled
from penstock.sandbox.processes.turns import Place, Turns, usual


async def settle() -> None:
    """Let everything go on that can."""
    for _ in range(5):
        await checkpoint()


def leaving(place: list[Place]) -> Callable[[], None]:
    """Return what an eviction does: the process ends, and then its place is free."""
    return lambda: asyncio.get_running_loop().call_soon(place[0].give_back)  # type: ignore[return-value]


async def test_tasks_take_turns_whatever_one_of_them_wants() -> None:
    turns, granted = Turns(1), list[str]()
    first = await turns.take("busy")

    async def work(task: str) -> None:
        place = await turns.take(task)
        granted.append(task)
        place.give_back()

    asked = ["busy"] * 5 + ["small"] + ["other"] * 2
    tasks = [asyncio.create_task(work(each)) for each in asked]
    await settle()
    assert granted == []
    first.give_back()
    await asyncio.gather(*tasks)
    assert granted == ["busy", "small", "other", "busy", "other", "busy", "busy", "busy"]


async def test_there_are_never_more_places_than_it_has() -> None:
    turns, most = Turns(3), 0

    async def work(number: int) -> None:
        nonlocal most
        place = await turns.take(str(number % 7))
        most = max(most, len(turns.held))
        await settle()
        place.give_back()
        place.give_back()

    await asyncio.gather(*map(work, range(200)))
    assert (most, len(turns.held)) == (3, 0)


async def test_who_only_waits_gives_way_after_its_patience_and_comes_first_again() -> None:
    turns = Turns(1)
    held = [await turns.take("a")]
    held[0].rest(leaving(held), 0)
    began = asyncio.get_running_loop().time()
    inner = await turns.take("a")
    assert asyncio.get_running_loop().time() - began >= 0.04
    queued = asyncio.create_task(turns.take("a"))
    await settle()
    outer = asyncio.create_task(turns.take("a", again=True))
    await settle()
    inner.give_back()
    (await outer).give_back()
    (await queued).give_back()


async def test_who_computes_is_evicted_late_and_patience_grows() -> None:
    turns, evicted = Turns(1), list[str]()
    place = await turns.take("a")
    place.rest(lambda: evicted.append("rest"), 0)
    place.work(lambda: evicted.append("work"), 0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await turns.take("b")
    place.rest(lambda: evicted.append("rest"), 3)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await turns.take("b")
    assert evicted == []
    place.work(lambda: evicted.append("work"), 0)
    place.patient_until = 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await turns.take("b")
    assert evicted == ["work"]


async def test_a_waiter_that_is_cut_neither_takes_a_place_nor_loses_one() -> None:
    turns = Turns(1)
    place = await turns.take("a")
    before, after = (asyncio.create_task(turns.take("a")) for _ in range(2))
    await settle()
    before.cancel()
    await settle()
    place.give_back()
    held = await after
    granted = asyncio.create_task(turns.take("a"))
    await settle()
    held.give_back()
    granted.cancel()
    await asyncio.gather(granted, return_exceptions=True)
    assert (granted.cancelled(), turns.held) == (True, set())


async def test_closing_ends_the_wait_of_all() -> None:
    turns = Turns(1)
    await turns.take("a")
    waiting = asyncio.create_task(turns.take("b"))
    await settle()
    turns.close()
    with pytest.raises(Cancelled, match="the sandbox is closed"):
        await waiting
    with pytest.raises(Cancelled):
        await turns.take("c")


def test_a_machine_has_some_places() -> None:
    assert 4 <= usual() <= 4096
    assert Turns().most == usual()
    assert Turns(7).most == 7
