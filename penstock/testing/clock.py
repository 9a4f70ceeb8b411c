"""A clock that moves by hand."""

import asyncio
import heapq
from collections.abc import Generator
from itertools import count

from penstock.core.clock import Moment

START = Moment(1_795_251_600_000)
"""2026-11-21T09:00:00Z, when every fake clock begins."""


class FakeClock:
    """Stands still until it is moved; who sleeps is woken in the order of the times."""

    def __init__(self, now: Moment = START) -> None:
        self._start = now
        self._passed = 0.0
        self._number = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> Moment:
        """Return the time of day."""
        return Moment(self._start + round(self._passed * 1000))

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved by so much."""
        if seconds <= 0:
            await settle(rounds=1)
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, next(self._number), sleeper))
        await sleeper

    @property
    def sleepers(self) -> int:
        """How many wait for the clock to move."""
        return sum(not sleeper.done() for _, _, sleeper in self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move the clock at once; sleepers whose time has come run with the next `await`."""
        self._passed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._passed:
            self._wake()

    async def elapse(self, seconds: float) -> None:
        """Move the clock from sleeper to sleeper and let each run on before the next is woken.

        Who sleeps again on the way is woken again, if that falls within these seconds.
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
    """Let the event loop run what is ready, and what becomes ready by that, so many times over."""
    for _ in range(rounds):
        await _Pause()


class _Pause:
    """Gives way to everything else that is ready, once."""

    def __await__(self) -> Generator[None]:
        yield
