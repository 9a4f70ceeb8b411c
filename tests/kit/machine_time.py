"""The time that the machine took from this process for others, by the scheduler of Linux."""

import os
from functools import cache
from pathlib import Path

SCHEDULED = Path("/proc/self/schedstat")
"""Of the main thread: nanoseconds on a core, nanoseconds in the queue for one, turns."""


def queued_seconds() -> float:
    """Return how long the main thread has waited for a core, in all; 0 where nothing counts it."""
    file = _file()
    return 0.0 if file is None else int(os.pread(file, 64, 0).split()[1]) / 1e9


@cache
def _file() -> int | None:
    """Return the file, open for the life of the process: to read it then takes 2 us."""
    return os.open(SCHEDULED, os.O_RDONLY | os.O_CLOEXEC) if SCHEDULED.exists() else None
