"""Measures how long the next message of a long log waits in a process that does not have it yet.

The adapter of this bench is a file with
    DISTRIBUTION                         what is measured
    async fill(directory, events)        writes a conversation so long; returns its name
    async first_events(directory, name)  opens the database again, and asks twice in a new one
                                         and once in this; returns the seconds until the first
                                         event of the second answer and of the third
The first opening after the log was written folds all of it and leaves a snapshot.
"""

import asyncio
import statistics
import sys
import tempfile
from typing import Any

from bench.kit import adapter, calibrate

SIZES = {"100k": 100_000, "1m": 1_000_000}
OPENINGS = 7


async def _measure(loaded: Any, scratch: str) -> dict[str, Any]:
    figures: dict[str, Any] = {"cal_ms": calibrate.wait(5)}
    for name, events in SIZES.items():
        with tempfile.TemporaryDirectory(dir=scratch) as directory:
            log = await loaded.fill(directory, events // 100 if calibrate.in_a_hurry() else events)
            _, first = await loaded.first_events(directory, log)
            count = 1 if calibrate.in_a_hurry() else OPENINGS
            openings = [await loaded.first_events(directory, log) for _ in range(count)]
        figures[f"cold_{name}_ms"] = statistics.median(cold for _, cold in openings) * 1e3
        figures[f"whole_{name}_ms"] = first * 1e3
        figures["new_ms"] = statistics.median(new for new, _ in openings) * 1e3
    return figures


async def main() -> None:
    """Load the adapter in the first argument, and measure on the disk of the second."""
    loaded = adapter.load(sys.argv[1])
    adapter.report(loaded, await _measure(loaded, sys.argv[2]))


if __name__ == "__main__":
    asyncio.run(main())
