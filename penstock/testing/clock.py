"""A clock that tests move by hand.

Time moves only through `advance` or `elapse`, so a test of a timeout takes no real time and has the
same result on every machine. Sleepers wake in the order of their times. Some work runs in real
threads, such as reading a flow. On a busy machine the clock would move before it is done, and what
follows would happen at a later time. So in a `memory_runtime`, `elapse` waits for these threads.
"""

import asyncio
import heapq
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from penstock.core.clock import Moment

START = Moment(1_795_251_600_000)
"""2026-11-21T09:00:00Z, the start time of every fake clock."""
_THREAD_SECONDS = 5
"""Real seconds that `settle` waits for threads; one of them may wait for the test itself."""

Done = TypeVar("Done")


class FakeClock:
    """A Clock that moves only when a test moves it."""

    def __init__(self, now: Moment = START) -> None:
        self._start = now
        self._passed = 0.0
        self._number = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> Moment:
        """Return the time of day."""
        return Moment(self._start + round(self._passed * 1000))

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved by this many seconds."""
        if seconds <= 0:
            await _Pause()
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, next(self._number), sleeper))
        await sleeper

    @property
    def sleepers(self) -> int:
        """How many coroutines wait for the clock to move."""
        return sum(not sleeper.done() for _, _, sleeper in self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move the clock at once. Sleepers whose time has come run at the next `await`."""
        self._passed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._passed:
            self._wake()

    async def elapse(self, seconds: float) -> None:
        """Move the clock from sleeper to sleeper, and let each run before the next wakes.

        A sleeper that sleeps again within these seconds wakes again.
        """
        until = self._passed + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            self._passed = max(self._passed, self._sleepers[0][0])
            self._wake()
            await settle()
        self._passed = until

    def _wake(self) -> None:
        sleeper = heapq.heappop(self._sleepers)[-1]
        if not sleeper.done():
            sleeper.set_result(None)


async def settle(*, rounds: int = 50) -> None:
    """Let the event loop run everything that is ready, this many rounds.

    If `follow_threads` was called on this loop, also wait for its threads, and for what follows.
    """
    threads = _followed.get(asyncio.get_running_loop())
    while True:
        for _ in range(rounds):
            await _Pause()
        if threads is None or not (jobs := tuple(threads.jobs)):
            return
        waiters = [asyncio.wrap_future(job) for job in jobs]
        _, late = await asyncio.wait(waiters, timeout=_THREAD_SECONDS)
        if late:
            return


def follow_threads() -> None:
    """Let `settle` and `FakeClock.elapse` wait for `asyncio.to_thread` on the running loop."""
    loop = asyncio.get_running_loop()
    if loop not in _followed:
        _followed[loop] = _Threads()
        loop.set_default_executor(_followed[loop])


class _Threads(ThreadPoolExecutor):
    """Threads that know their unfinished jobs."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self.jobs: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., Done], /, *args: Any, **kwargs: Any) -> "Future[Done]":
        """Start a job."""
        job = super().submit(fn, *args, **kwargs)
        self.jobs.add(job)
        job.add_done_callback(self.jobs.discard)
        return job


_followed: WeakKeyDictionary[asyncio.AbstractEventLoop, _Threads] = WeakKeyDictionary()


class _Pause:
    """Yields to the event loop once."""

    def __await__(self) -> Generator[None]:
        yield
