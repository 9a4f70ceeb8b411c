"""Turns at a bounded number of processes: fair among tasks, and without deadlock.

Guarantees that at most `most` places are held at once, and that free places go to tasks in turn: a
task that wants a hundred does not hold up one that wants one. Everybody gets a place, whatever the
holders do: a script that waits for a tool which is a script itself would hold the place that the
inner script needs, and one that never ends would hold its place for all its time. So a holder whose
place is wanted for longer than its patience is evicted: its process ends, and it takes a turn again
(`process_guest.py` brings the new process to where the old one was). One that only waits (`rest`)
has little patience, one that computes (`work`) more. Each eviction of a holder doubles it, and it
is never less than the seconds of computing that an eviction repeats. So what is computed again
takes at most twice as long as the holder kept its places.

Relies on one event loop at a time, which alone changes `held`; threads append to `left`. Proof:
tests/sandbox/processes/test_turns.py, and with processes
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
"""Of processes where no limit is set; half of the memory is for them."""
_PATIENCE, _MOST_PATIENCE = 0.05, 2.0
"""Seconds that a holder which only waits keeps its place from others."""
_SLICE = 0.2
"""Seconds that one which computes does. Both are doubled by each eviction."""
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


class Place:
    """A place that is held, from `Turns.take` until `give_back`."""

    def __init__(self, turns: "Turns") -> None:
        self._turns = turns
        self.evict: Callable[[], None] | None = None
        """Ends the process of the holder; None for one that cannot begin again."""
        self.patient_until = 0.0

    def rest(self, evict: Callable[[], None], evictions: int, *, cost: float = 0) -> None:
        """Note that the holder waits. It was evicted `evictions` times; a replay takes `cost` s."""
        self._keep(evict, max(min(_doubled(_PATIENCE, evictions), _MOST_PATIENCE), cost))

    def work(self, evict: Callable[[], None], evictions: int, *, cost: float = 0) -> None:
        """Note that the holder computes: a script that never ends would keep others waiting."""
        self._keep(evict, max(_doubled(_SLICE, evictions), cost))

    def _keep(self, evict: Callable[[], None], seconds: float) -> None:
        self.patient_until = self._turns.timers().time() + seconds
        self.evict = evict
        self._turns.make_room()

    def give_back(self) -> None:
        """Let another one have the place; more than once is once."""
        self.evict = None
        self._turns.held.discard(self)
        self._turns.make_room()

    def leave_from(self, loop: asyncio.AbstractEventLoop) -> Callable[[Any], None]:
        """Return what gives the place back from another thread, also if the loop has ended."""

        def leave(_: Any) -> None:
            self._turns.left.append(self)
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._turns.make_room)

        return leave


class Turns:
    """At most so many places; 0 is what cores and memory of this machine allow."""

    def __init__(
        self, most: int = 0, *, timers: Callable[[], Timers] = asyncio.get_running_loop
    ) -> None:
        self.most = most or usual()
        self.timers = timers
        self.held: set[Place] = set()
        self.left: deque[Place] = deque()
        """Given back by threads; the loop takes them out of `held`."""
        self._wanted: dict[str, deque[asyncio.Future[Place]]] = {}
        """By task, the one whose turn it is first."""
        self._look: Timer | None = None
        self._is_closed = False

    async def take(self, task: str, *, again: bool = False) -> Place:
        """Wait for a place. Who gave one up to wait takes it `again`, before others of its task."""
        if self._is_closed:
            raise Cancelled(_CLOSED)
        granted: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        line = self._wanted.setdefault(task, deque())
        (line.appendleft if again else line.append)(granted)
        self.make_room()
        try:
            return await granted
        except asyncio.CancelledError:
            if not granted.done() or granted.cancelled():
                self._leave_line(task, granted)
            elif granted.exception() is None:
                place = granted.result()
                place.give_back()
            raise

    def close(self) -> None:
        """End the wait of all."""
        self._is_closed = True
        for line in self._wanted.values():
            for granted in line:
                if not granted.done():
                    granted.set_exception(Cancelled(_CLOSED))
        self._wanted.clear()

    def make_room(self) -> None:
        """Grant free places; where there are none, evict holders that wait."""
        while self.left:
            self.held.discard(self.left.popleft())
        while len(self.held) < self.most and self._wanted:
            self._grant_next()
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if wanted := sum(map(len, self._wanted.values())):
            self._evict(wanted)

    def _grant_next(self) -> None:
        """Grant a place to whose turn it is, and let the next task be first."""
        task, line = next(iter(self._wanted.items()))
        del self._wanted[task]
        while line and line[0].done():
            del line[0]
        if line:
            place = Place(self)
            self.held.add(place)
            line.popleft().set_result(place)
        if line:
            self._wanted[task] = line

    def _leave_line(self, task: str, granted: asyncio.Future[Place]) -> None:
        """Forget a request that was cancelled: nobody is evicted for it."""
        line = self._wanted.get(task, deque())
        if granted in line:
            line.remove(granted)
        if not line:
            self._wanted.pop(task, None)

    def _evict(self, wanted: int) -> None:
        """Evict as many as are wanted of those whose patience is over; look again for the others.

        An evicted one holds its place until its process is reaped, but is not evicted twice.
        """
        timers = self.timers()
        leaving = sum(place.evict is _gone for place in self.held)
        resting = [place for place in self.held if place.evict not in {None, _gone}]
        for place in sorted(resting, key=_patience)[: max(wanted - leaving, 0)]:
            if place.patient_until > timers.time():
                self._look = timers.call_at(place.patient_until, self.make_room)
                return
            evict, place.evict = place.evict, _gone
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


def _patience(place: Place) -> float:
    return place.patient_until


def _gone() -> None:
    """Mark who was evicted."""
