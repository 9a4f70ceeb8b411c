"""Turns at processes: fair among tasks, and without deadlock."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from threading import Thread

import pytest
from anyio.lowlevel import checkpoint

from penstock.core.call_errors import Cancelled
from penstock.sandbox.processes.turns import Place, Turns, usual


class Planned:
    """A callback that may still be cancelled."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class SimulatedTime:
    """Moves only when the test says so, and calls on its way what was planned."""

    def __init__(self) -> None:
        self._now = 100.0
        self._planned: list[tuple[float, int, Planned]] = []
        self._number = count()

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], None], /) -> Planned:
        planned = Planned(callback)
        heapq.heappush(self._planned, (when, next(self._number), planned))
        return planned

    async def pass_by(self, seconds: float) -> None:
        until = self._now + seconds
        await settle()
        while self._planned and self._planned[0][0] <= until:
            self._now, _, planned = heapq.heappop(self._planned)
            if planned.callback is not None:
                planned.callback()
            await settle()
        self._now = until


class Evictions:
    """Places for one holder, with simulated time; notes when the holder is evicted."""

    def __init__(self, most: int = 1) -> None:
        self.time = SimulatedTime()
        self.turns = Turns(most, timers=lambda: self.time)
        self.evicted: list[str] = []

    def evict(self, name: str = "it") -> Callable[[], None]:
        return lambda: self.evicted.append(name)

    async def seconds_kept(self, most: float) -> float | None:
        """Let another one want the place; returns after how long the holder is evicted."""
        waiting, began = asyncio.create_task(self.turns.take("other")), self.time.time()
        await settle()
        while not self.evicted and self.time.time() - began < most:
            await self.time.pass_by(0.01)
        waiting.cancel()
        await settle()
        return round(self.time.time() - began, 2) if self.evicted else None


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
    time = SimulatedTime()
    turns = Turns(1, timers=lambda: time)
    held = [await turns.take("a")]
    held[0].rest(leaving(held), 0)
    inner = asyncio.create_task(turns.take("a"))
    await time.pass_by(0.04)
    assert not inner.done()
    await time.pass_by(0.02)
    queued = asyncio.create_task(turns.take("a"))
    await settle()
    outer = asyncio.create_task(turns.take("a", again=True))
    await settle()
    (await inner).give_back()
    (await outer).give_back()
    (await queued).give_back()


PATIENCE: dict[str, tuple[str, int, float, float]] = {
    "rests": ("rest", 0, 0, 0.05),
    "rests, evicted three times": ("rest", 3, 0, 0.4),
    "rests, evicted often": ("rest", 10, 0, 2),
    "rests, evicted for ever": ("rest", 1024, 0, 2),
    "rests after ten seconds of computing": ("rest", 0, 10, 10),
    "computes": ("work", 0, 0, 0.2),
    "computes, evicted twice": ("work", 2, 0, 0.8),
    "computes after ten seconds of computing": ("work", 2, 10, 10),
}


@pytest.mark.parametrize("case", PATIENCE.values(), ids=PATIENCE)
async def test_a_holder_keeps_its_place_for_its_patience(
    case: tuple[str, int, float, float],
) -> None:
    """And at least for what its replay costs, or it would mostly compute what it computed."""
    how, evictions, cost, kept = case
    held = Evictions()
    place = await held.turns.take("a")
    getattr(place, how)(held.evict(), evictions, cost=cost)
    assert await held.seconds_kept(20) == pytest.approx(kept, abs=0.011)


@pytest.mark.parametrize("evictions", [40, 1_024, 10**6])
async def test_a_holder_that_was_evicted_without_end_may_compute(evictions: int) -> None:
    held = Evictions()
    place = await held.turns.take("a")
    place.work(held.evict(), evictions)
    assert await held.seconds_kept(5) is None


async def test_who_begins_to_compute_is_not_evicted_for_having_rested() -> None:
    held = Evictions()
    place = await held.turns.take("a")
    place.rest(held.evict("rest"), 0)
    place.work(held.evict("work"), 0)
    assert await held.seconds_kept(1) == pytest.approx(0.2, abs=0.011)
    assert held.evicted == ["work"]


async def test_nobody_is_evicted_for_waiters_that_were_cancelled() -> None:
    held = Evictions(3)
    places = [await held.turns.take("a") for _ in range(3)]
    waiting = [asyncio.create_task(held.turns.take(task)) for task in ("b", "b", "c")]
    await settle()
    for each in waiting:
        each.cancel()
    await settle()
    for place in places:
        place.rest(held.evict(), 0)
    await held.time.pass_by(10)
    assert held.evicted == []


async def test_one_waiter_that_is_left_of_a_task_evicts_one() -> None:
    held = Evictions(3)
    for place in [await held.turns.take("a") for _ in range(3)]:
        place.rest(held.evict(), 0)
    waiting = [asyncio.create_task(held.turns.take("b")) for _ in range(3)]
    await settle()
    waiting[0].cancel()
    waiting[2].cancel()
    await held.time.pass_by(10)
    assert held.evicted == ["it"]


async def test_a_place_that_a_thread_gives_back_is_taken_out_by_the_loop() -> None:
    """The loop iterates over the holders, which no other thread may change meanwhile."""
    turns = Turns(1)
    place = await turns.take("a")
    waiting = asyncio.create_task(turns.take("b"))
    await settle()
    reaper = Thread(target=place.leave_from(asyncio.get_running_loop()), args=(None,))
    reaper.start()
    reaper.join()
    assert turns.held == {place}
    assert await waiting is not place
    assert len(turns.held) == 1


def test_a_place_that_is_given_back_after_its_loop_ended_can_be_taken() -> None:
    turns = Turns(1)

    async def take() -> Callable[[object], None]:
        place = await turns.take("a")
        return place.leave_from(asyncio.get_running_loop())

    asyncio.run(take())(None)
    asyncio.run(take())


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


async def test_a_waiter_that_is_cancelled_as_all_closes_ends_as_cancelled() -> None:
    turns = Turns(1)
    await turns.take("a")
    waiting = asyncio.create_task(turns.take("b"))
    await settle()
    turns.close()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_a_machine_has_some_places() -> None:
    assert 4 <= usual() <= 4096
    assert Turns().most == usual()
    assert Turns(7).most == 7
