"""A clock that tests move by hand.

Time moves only through `advance` or `elapse`, so a test of a timeout takes no real time and has the
same result on every machine. Sleepers wake in the order of their times.
"""

import asyncio
import heapq
from collections.abc import Generator
from itertools import count

from penstock.core.clock import Moment

START = Moment(1_795_251_600_000)
"""2026-11-21T09:00:00Z, the start time of every fake clock."""


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
            await settle(rounds=1)
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
    """Let the event loop run everything that is ready, this many rounds."""
    for _ in range(rounds):
        await _Pause()


class _Pause:
    """Yields to the event loop once."""

    def __await__(self) -> Generator[None]:
        yield
