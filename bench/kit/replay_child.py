"""Measures how fast a recorded task is replayed.

The adapter of this bench is a file with
    DISTRIBUTION                       what is measured
    async begin(directory)             returns a context, on a new database under directory
    async record(context, turns)       runs a task of so many turns with one call; returns its name
    async replay(context, name)        replays it, and checks that all of its events were compared;
                                       returns how many
    async end(context)
"""

import asyncio
import sys
import tempfile
import time
from typing import Any

from bench.kit import adapter, calibrate

TURNS = 1000


async def _measure(loaded: Any, directory: str) -> dict[str, Any]:
    context, events = await loaded.begin(directory), 0

    async def sample() -> tuple[float, float]:
        nonlocal events
        started, before = time.perf_counter(), time.process_time()
        events = await loaded.replay(context, name)
        return time.perf_counter() - started, time.process_time() - before

    try:
        name = await loaded.record(context, TURNS)
        window = await calibrate.window(sample, 3, 5)
    finally:
        await loaded.end(context)
    return {
        "replay_events": events,
        "replay_events_s": events / window["p50"],
        "replay_events_cpu_s": events / window["min"][1],
    }


async def main() -> None:
    """Load the adapter in the first argument, and measure on the disk of the second."""
    loaded = adapter.load(sys.argv[1])
    with tempfile.TemporaryDirectory(dir=sys.argv[2]) as directory:
        adapter.report(loaded, await _measure(loaded, directory))


if __name__ == "__main__":
    asyncio.run(main())
