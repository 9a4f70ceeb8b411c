"""The clock port, and the clock of this machine; the only file that reads the time."""

import asyncio
import time
from datetime import UTC, datetime
from typing import NewType, Protocol

Moment = NewType("Moment", int)
"""Milliseconds since 1970 in UTC: how times are stored and compared."""


class Clock(Protocol):
    """Returns the time, and waits.

    Contract: `monotonic` never goes back; `sleep` returns no earlier than it should.
    """

    def now(self) -> Moment:
        """Return the time of day."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment, for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clock of this machine."""

    monotonic = staticmethod(time.monotonic)

    def now(self) -> Moment:
        """Return the time of day."""
        return Moment(time.time_ns() // 1_000_000)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def to_iso(moment: Moment) -> str:
    """Return the moment as `2026-11-21T09:00:00.000Z`."""
    text = datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
