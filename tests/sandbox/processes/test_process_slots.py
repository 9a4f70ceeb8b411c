"""Slots for processes: fair among tasks, and without deadlock."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from threading import Thread

import pytest
from anyio.lowlevel import checkpoint

from penstock.core.call_errors import Cancelled
from penstock.sandbox.processes.process_slots import ProcessSlots, Slot, usual


class Planned:
    """A scheduled callback that can be cancelled."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class SimulatedTime:
    """A clock that the test advances; it calls the callbacks that become due."""

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
    """Slots for one holder, with simulated time; records when the holder is evicted."""

    def __init__(self, most: int = 1) -> None:
        self.time = SimulatedTime()
        self.slots = ProcessSlots(most, scheduler=lambda: self.time)
        self.evicted: list[str] = []

    def evict(self, name: str = "it") -> Callable[[], None]:
        return lambda: self.evicted.append(name)

    async def seconds_kept(self, most: float) -> float | None:
        """Request the slot for another task; return the seconds until the holder is evicted."""
        waiting, began = asyncio.create_task(self.slots.acquire("other")), self.time.time()
        await settle()
        while not self.evicted and self.time.time() - began < most:
            await self.time.pass_by(0.01)
        waiting.cancel()
        await settle()
        return round(self.time.time() - began, 2) if self.evicted else None


async def settle() -> None:
    """Run all callbacks that are ready."""
    for _ in range(5):
        await checkpoint()


def leaving(slot: list[Slot]) -> Callable[[], None]:
    """Return an eviction: the process ends, then its slot is released."""
    return lambda: asyncio.get_running_loop().call_soon(slot[0].release)  # type: ignore[return-value]


async def test_tasks_take_turns_however_many_slots_one_requests() -> None:
    slots, granted = ProcessSlots(1), list[str]()
    first = await slots.acquire("busy")

    async def work(task: str) -> None:
        slot = await slots.acquire(task)
        granted.append(task)
        slot.release()

    asked = ["busy"] * 5 + ["small"] + ["other"] * 2
    tasks = [asyncio.create_task(work(each)) for each in asked]
    await settle()
    assert granted == []
    first.release()
    await asyncio.gather(*tasks)
    assert granted == ["busy", "small", "other", "busy", "other", "busy", "busy", "busy"]


async def test_slots_never_exceed_their_number() -> None:
    slots, most = ProcessSlots(3), 0

    async def work(number: int) -> None:
        nonlocal most
        slot = await slots.acquire(str(number % 7))
        most = max(most, len(slots.held))
        await settle()
        slot.release()
        slot.release()

    await asyncio.gather(*map(work, range(200)))
    assert (most, len(slots.held)) == (3, 0)


async def test_an_idle_holder_is_evicted_after_its_patience_and_served_first_again() -> None:
    time = SimulatedTime()
    slots = ProcessSlots(1, scheduler=lambda: time)
    held = [await slots.acquire("a")]
    held[0].idle(leaving(held), 0)
    inner = asyncio.create_task(slots.acquire("a"))
    await time.pass_by(0.04)
    assert not inner.done()
    await time.pass_by(0.02)
    queued = asyncio.create_task(slots.acquire("a"))
    await settle()
    outer = asyncio.create_task(slots.acquire("a", again=True))
    await settle()
    (await inner).release()
    (await outer).release()
    (await queued).release()


PATIENCE: dict[str, tuple[str, int, float, float]] = {
    "rests": ("idle", 0, 0, 0.05),
    "rests, evicted three times": ("idle", 3, 0, 0.4),
    "rests, evicted often": ("idle", 10, 0, 2),
    "rests, evicted for ever": ("idle", 1024, 0, 2),
    "rests after ten seconds of computing": ("idle", 0, 10, 10),
    "computes": ("busy", 0, 0, 0.2),
    "computes, evicted twice": ("busy", 2, 0, 0.8),
    "computes after ten seconds of computing": ("busy", 2, 10, 10),
}


@pytest.mark.parametrize("case", PATIENCE.values(), ids=PATIENCE)
async def test_a_holder_keeps_its_slot_for_its_patience(
    case: tuple[str, int, float, float],
) -> None:
    """And at least as long as its replay takes; otherwise it would mostly replay."""
    how, evictions, cost, kept = case
    held = Evictions()
    slot = await held.slots.acquire("a")
    getattr(slot, how)(held.evict(), evictions, cost=cost)
    assert await held.seconds_kept(20) == pytest.approx(kept, abs=0.011)


@pytest.mark.parametrize("evictions", [40, 1_024, 10**6])
async def test_the_patience_of_an_often_evicted_holder_is_bounded(evictions: int) -> None:
    held = Evictions()
    slot = await held.slots.acquire("a")
    slot.busy(held.evict(), evictions)
    assert await held.seconds_kept(5) is None


async def test_a_holder_that_starts_to_compute_gets_new_patience() -> None:
    held = Evictions()
    slot = await held.slots.acquire("a")
    slot.idle(held.evict("idle"), 0)
    slot.busy(held.evict("busy"), 0)
    assert await held.seconds_kept(1) == pytest.approx(0.2, abs=0.011)
    assert held.evicted == ["busy"]


async def test_cancelled_requests_evict_no_holder() -> None:
    held = Evictions(3)
    taken = [await held.slots.acquire("a") for _ in range(3)]
    waiting = [asyncio.create_task(held.slots.acquire(task)) for task in ("b", "b", "c")]
    await settle()
    for request in waiting:
        request.cancel()
    await settle()
    for slot in taken:
        slot.idle(held.evict(), 0)
    await held.time.pass_by(10)
    assert held.evicted == []


async def test_one_remaining_request_evicts_one_holder() -> None:
    held = Evictions(3)
    for slot in [await held.slots.acquire("a") for _ in range(3)]:
        slot.idle(held.evict(), 0)
    waiting = [asyncio.create_task(held.slots.acquire("b")) for _ in range(3)]
    await settle()
    waiting[0].cancel()
    waiting[2].cancel()
    await held.time.pass_by(10)
    assert held.evicted == ["it"]


async def test_a_slot_released_by_a_thread_is_granted_by_the_loop() -> None:
    """The loop iterates over the holders, so no other thread may change them."""
    slots = ProcessSlots(1)
    slot = await slots.acquire("a")
    waiting = asyncio.create_task(slots.acquire("b"))
    await settle()
    reaper = Thread(target=slot.release_from(asyncio.get_running_loop()), args=(None,))
    reaper.start()
    reaper.join()
    assert slots.held == {slot}
    assert await waiting is not slot
    assert len(slots.held) == 1


def test_a_slot_released_after_its_loop_ended_can_be_acquired() -> None:
    slots = ProcessSlots(1)

    async def take() -> Callable[[object], None]:
        slot = await slots.acquire("a")
        return slot.release_from(asyncio.get_running_loop())

    asyncio.run(take())(None)
    assert slots.free == 1
    asyncio.run(take())
    assert slots.free == 0


async def test_a_cancelled_request_neither_takes_nor_loses_a_slot() -> None:
    slots = ProcessSlots(1)
    slot = await slots.acquire("a")
    before, after = (asyncio.create_task(slots.acquire("a")) for _ in range(2))
    await settle()
    before.cancel()
    await settle()
    slot.release()
    held = await after
    granted = asyncio.create_task(slots.acquire("a"))
    await settle()
    held.release()
    granted.cancel()
    await asyncio.gather(granted, return_exceptions=True)
    assert (granted.cancelled(), slots.held) == (True, set())


async def test_closing_cancels_all_requests() -> None:
    slots = ProcessSlots(1)
    await slots.acquire("a")
    waiting = asyncio.create_task(slots.acquire("b"))
    await settle()
    slots.close()
    with pytest.raises(Cancelled, match="the sandbox is closed"):
        await waiting
    with pytest.raises(Cancelled):
        await slots.acquire("c")


async def test_a_request_cancelled_during_close_ends_as_cancelled() -> None:
    slots = ProcessSlots(1)
    await slots.acquire("a")
    waiting = asyncio.create_task(slots.acquire("b"))
    await settle()
    slots.close()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_the_default_number_of_slots_is_positive() -> None:
    assert 4 <= usual() <= 4096
    assert ProcessSlots().most == usual()
    assert ProcessSlots(7).most == 7
