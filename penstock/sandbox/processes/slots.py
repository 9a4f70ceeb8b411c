"""Slots for a bounded number of processes: fair among tasks, and without deadlock.

At most `most` slots are held at once, and free slots go to tasks in turn: a task that wants a
hundred does not hold up one that wants one. Every request is granted in the end, whatever the
holders do. Without eviction, a script that waits for a tool which is a script itself would hold the
slot that the inner script needs, and one that never ends would hold its slot for all its time. So a
holder whose slot is wanted for longer than its patience is evicted: its process ends, and the
holder acquires a slot again when it has something to compute (`process_guest.py` brings the new
process to where the old one was). A holder that only waits (`idle`) has little patience, one that
computes (`busy`) more. Each eviction of a holder doubles it, and it is never less than the seconds
of computing that an eviction repeats. So what is computed again takes at most twice as long as the
holder kept its slots.

Relies on one event loop at a time, which alone changes `held`; threads append to `left`. Proof:
tests/sandbox/processes/test_slots.py, and with processes
tests/sandbox/processes/test_process_sandbox.py.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from penstock.core.call_errors import Cancelled

_PER_CORE, _FEWEST, _EACH_MB = 4, 4, 256
"""Processes where no limit is set; they get half of the memory."""
_PATIENCE, _MOST_PATIENCE = 0.05, 2.0
"""Seconds that a holder which only waits keeps its slot from others."""
_SLICE = 0.2
"""Seconds that one which computes does. Each eviction doubles both."""
_MOST_DOUBLINGS = 16
"""Patience for most of a day; more would not fit a float in the end."""
_CGROUP = Path("/sys/fs/cgroup/memory.max")
_CLOSED = "the sandbox is closed"


class Timer(Protocol):
    """What was planned for a time."""

    def cancel(self) -> None:
        """Do not do it."""
        ...


class Timers(Protocol):
    """The time, and what happens at one: an event loop."""

    def time(self) -> float:
        """Return seconds since some moment."""
        ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> Timer:
        """Call it at this time."""
        ...


class Slot:
    """A slot that is held, from `ProcessSlots.acquire` until `release`."""

    def __init__(self, slots: "ProcessSlots") -> None:
        self._slots = slots
        self.evict: Callable[[], None] | None = None
        """Ends the process of the holder; None for one that cannot begin again."""
        self.patient_until = 0.0

    def idle(self, evict: Callable[[], None], evictions: int, *, cost: float = 0) -> None:
        """Note that the holder waits. It was evicted `evictions` times; a replay takes `cost` s."""
        self._keep(evict, max(min(_doubled(_PATIENCE, evictions), _MOST_PATIENCE), cost))

    def busy(self, evict: Callable[[], None], evictions: int, *, cost: float = 0) -> None:
        """Note that the holder computes: a script that never ends would keep others waiting."""
        self._keep(evict, max(_doubled(_SLICE, evictions), cost))

    def _keep(self, evict: Callable[[], None], seconds: float) -> None:
        self.patient_until = self._slots.timers().time() + seconds
        self.evict = evict
        self._slots.make_room()

    def release(self) -> None:
        """Let another holder have the slot. Further calls do nothing."""
        self.evict = None
        self._slots.held.discard(self)
        self._slots.make_room()

    def release_from(self, loop: asyncio.AbstractEventLoop) -> Callable[[Any], None]:
        """Return what releases the slot from another thread, also if the loop has ended."""

        def leave(_: Any) -> None:
            self._slots.left.append(self)
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._slots.make_room)

        return leave


class ProcessSlots:
    """At most so many slots; 0 is what cores and memory of this machine allow."""

    def __init__(
        self, most: int = 0, *, timers: Callable[[], Timers] = asyncio.get_running_loop
    ) -> None:
        self.most = most or usual()
        self.timers = timers
        self.held: set[Slot] = set()
        self.left: deque[Slot] = deque()
        """Released by threads; the loop takes them out of `held`."""
        self._wanted: dict[str, deque[asyncio.Future[Slot]]] = {}
        """Queues by task, the next one first."""
        self._look: Timer | None = None
        self._is_closed = False

    @property
    def free(self) -> int:
        """How many slots nobody holds."""
        while self.left:
            self.held.discard(self.left.popleft())
        return self.most - len(self.held)

    async def acquire(self, task: str, *, again: bool = False) -> Slot:
        """Wait for a slot.

        Pass `again=True` after an eviction while idle: the request goes to the front of its task's
        queue.
        """
        if self._is_closed:
            raise Cancelled(_CLOSED)
        granted: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        line = self._wanted.setdefault(task, deque())
        (line.appendleft if again else line.append)(granted)
        self.make_room()
        try:
            return await granted
        except asyncio.CancelledError:
            if not granted.done() or granted.cancelled():
                self._leave_line(task, granted)
            elif granted.exception() is None:
                slot = granted.result()
                slot.release()
            raise

    def close(self) -> None:
        """End every wait with Cancelled, and refuse further requests."""
        self._is_closed = True
        for line in self._wanted.values():
            for granted in line:
                if not granted.done():
                    granted.set_exception(Cancelled(_CLOSED))
        self._wanted.clear()

    def make_room(self) -> None:
        """Grant free slots; where there are none, evict holders whose patience is over."""
        while self.free > 0 and self._wanted:
            self._grant_next()
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if wanted := sum(map(len, self._wanted.values())):
            self._evict(wanted)

    def _grant_next(self) -> None:
        """Grant a slot to the first task, which then goes behind the others."""
        task, line = next(iter(self._wanted.items()))
        del self._wanted[task]
        while line and line[0].done():
            del line[0]
        if line:
            slot = Slot(self)
            self.held.add(slot)
            line.popleft().set_result(slot)
        if line:
            self._wanted[task] = line

    def _leave_line(self, task: str, granted: asyncio.Future[Slot]) -> None:
        """Forget a request that was cancelled: nobody is evicted for it."""
        line = self._wanted.get(task, deque())
        if granted in line:
            line.remove(granted)
        if not line:
            self._wanted.pop(task, None)

    def _evict(self, wanted: int) -> None:
        """Evict as many as are wanted of those whose patience is over; look again for the others.

        An evicted holder keeps its slot until its process is reaped, and is not evicted twice.
        """
        timers = self.timers()
        leaving = sum(slot.evict is _gone for slot in self.held)
        resting = [slot for slot in self.held if slot.evict not in {None, _gone}]
        for slot in sorted(resting, key=_patience)[: max(wanted - leaving, 0)]:
            if slot.patient_until > timers.time():
                self._look = timers.call_at(slot.patient_until, self.make_room)
                return
            evict, slot.evict = slot.evict, _gone
            if evict is not None:
                evict()


def usual() -> int:
    """Return how many processes a machine can well have at once, by its cores and memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    by_cores = _PER_CORE * (cores or 1)
    return max(_FEWEST, min(by_cores, _memory() // 2 // (_EACH_MB << 20)))


def _memory() -> int:
    """Return the bytes of memory that this process may have, as far as the system says it."""
    found = (
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if os.name == "posix" else 1 << 34
    )
    with suppress(OSError, ValueError):
        found = min(found, int(_CGROUP.read_text()))
    return found


def _doubled(seconds: float, evictions: int) -> float:
    return seconds * 2.0 ** min(evictions, _MOST_DOUBLINGS)


def _patience(slot: Slot) -> float:
    return slot.patient_until


def _gone() -> None:
    """Mark who was evicted."""
