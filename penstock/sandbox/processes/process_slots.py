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
tests/sandbox/processes/test_process_slots.py, and with processes
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

_PER_CORE, _MIN_SLOTS, _EACH_MB = 4, 4, 256
"""Processes where no limit is set; they get half of the memory."""
_PATIENCE, _MAX_PATIENCE = 0.05, 2.0
"""Seconds that a holder which only waits keeps its slot from others."""
_SLICE = 0.2
"""The same for a holder that computes. Each eviction doubles both."""
_MAX_DOUBLINGS = 16
"""0.2 s doubled 16 times is 3.6 hours. Without a bound the power would overflow a float."""
_CGROUP = Path("/sys/fs/cgroup/memory.max")
_CLOSED = "the sandbox is closed"


class Timer(Protocol):
    """A scheduled callback."""

    def cancel(self) -> None:
        """Cancel the callback."""
        ...


class Scheduler(Protocol):
    """A clock that schedules callbacks: an event loop."""

    def time(self) -> float:
        """Return seconds since an arbitrary moment."""
        ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> Timer:
        """Schedule a callback."""
        ...


class Slot:
    """A slot that is held, from `ProcessSlots.acquire` until `release`."""

    def __init__(self, slots: "ProcessSlots") -> None:
        self._slots = slots
        self.evict: Callable[[], None] | None = None
        """Ends the process of the holder; None for a holder that cannot be evicted."""
        self.patient_until = 0.0

    def idle(self, evict: Callable[[], None], evictions: int, *, cost: float = 0) -> None:
        """Mark the holder as waiting. It was evicted `evictions` times; a replay takes `cost` s."""
        self._keep(evict, max(min(_doubled(_PATIENCE, evictions), _MAX_PATIENCE), cost))

    def busy(self, evict: Callable[[], None], evictions: int, *, cost: float = 0) -> None:
        """Mark the holder as computing. It can still be evicted: a script may never end."""
        self._keep(evict, max(_doubled(_SLICE, evictions), cost))

    def _keep(self, evict: Callable[[], None], seconds: float) -> None:
        self.patient_until = self._slots.scheduler().time() + seconds
        self.evict = evict
        self._slots.make_room()

    def release(self) -> None:
        """Release the slot. Further calls do nothing."""
        self.evict = None
        self._slots.held.discard(self)
        self._slots.make_room()

    def release_from(self, loop: asyncio.AbstractEventLoop) -> Callable[[Any], None]:
        """Return a function that releases the slot from another thread.

        If the loop has ended, the slot stays in `left` until the next loop looks at `free`.
        """

        def leave(_: Any) -> None:
            self._slots.left.append(self)
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._slots.make_room)

        return leave


class ProcessSlots:
    """`most` slots; 0 for the number that fits the cores and memory of this machine."""

    def __init__(
        self, most: int = 0, *, scheduler: Callable[[], Scheduler] = asyncio.get_running_loop
    ) -> None:
        self.most = most or usual()
        self.scheduler = scheduler
        self.held: set[Slot] = set()
        self.left: deque[Slot] = deque()
        """Released by threads; the loop takes them out of `held`."""
        self._wanted: dict[str, deque[asyncio.Future[Slot]]] = {}
        """The queue of each task. The first task gets the next free slot."""
        self._next_check: Timer | None = None
        self._is_closed = False

    @property
    def free(self) -> int:
        """Number of free slots."""
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
        queue = self._wanted.setdefault(task, deque())
        (queue.appendleft if again else queue.append)(granted)
        self.make_room()
        try:
            return await granted
        except asyncio.CancelledError:
            # Granted and cancelled in the same iteration of the loop: release the slot, or it
            # is lost.
            if not granted.done() or granted.cancelled():
                self._leave_queue(task, granted)
            elif granted.exception() is None:
                slot = granted.result()
                slot.release()
            raise

    def close(self) -> None:
        """End every wait with Cancelled; refuse further requests."""
        self._is_closed = True
        for queue in self._wanted.values():
            for granted in queue:
                if not granted.done():
                    granted.set_exception(Cancelled(_CLOSED))
        self._wanted.clear()

    def make_room(self) -> None:
        """Grant free slots; if there are none, evict holders whose patience ended."""
        while self.free > 0 and self._wanted:
            self._grant_next()
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None
        if requests := sum(map(len, self._wanted.values())):
            self._evict(requests)

    def _grant_next(self) -> None:
        """Grant a slot to the first task and move the task to the end."""
        task, queue = next(iter(self._wanted.items()))
        del self._wanted[task]
        while queue and queue[0].done():
            del queue[0]
        if queue:
            slot = Slot(self)
            self.held.add(slot)
            queue.popleft().set_result(slot)
        if queue:
            self._wanted[task] = queue

    def _leave_queue(self, task: str, granted: asyncio.Future[Slot]) -> None:
        """Remove a cancelled request, so that no holder is evicted for it."""
        queue = self._wanted.get(task, deque())
        if granted in queue:
            queue.remove(granted)
        if not queue:
            self._wanted.pop(task, None)

    def _evict(self, requests: int) -> None:
        """Evict up to `requests` holders whose patience ended; schedule a check for the next one.

        An evicted holder keeps its slot until its process is reaped, and is not evicted twice.
        """
        scheduler = self.scheduler()
        leaving = sum(slot.evict is _evicted for slot in self.held)
        evictable = [slot for slot in self.held if slot.evict not in {None, _evicted}]
        for slot in sorted(evictable, key=_patience)[: max(requests - leaving, 0)]:
            if slot.patient_until > scheduler.time():
                self._next_check = scheduler.call_at(slot.patient_until, self.make_room)
                return
            # Marked first: `evict` may release the slot, which calls `make_room` again.
            evict, slot.evict = slot.evict, _evicted
            if evict is not None:
                evict()


def usual() -> int:
    """Return how many processes fit this machine, by its cores and memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    by_cores = _PER_CORE * (cores or 1)
    return max(_MIN_SLOTS, min(by_cores, _memory() // 2 // (_EACH_MB << 20)))


def _memory() -> int:
    """Return the bytes of memory of this machine, or of its container if that has less."""
    memory = (
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if os.name == "posix" else 1 << 34
    )
    with suppress(OSError, ValueError):
        memory = min(memory, int(_CGROUP.read_text()))
    return memory


def _doubled(seconds: float, evictions: int) -> float:
    return seconds * 2.0 ** min(evictions, _MAX_DOUBLINGS)


def _patience(slot: Slot) -> float:
    return slot.patient_until


def _evicted() -> None:
    """Mark a slot whose holder was evicted."""
