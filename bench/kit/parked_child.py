"""Measures what parked tasks and schedules cost while nothing happens, and when many are due.

The adapter of this bench is a file with
    DISTRIBUTION                              what is measured
    async park(directory, count)              parks so many tasks, each at a question; returns some
    async start_seconds(directory)            opens the project; returns how long that took
    async idle_pct(directory, seconds)        the CPU of an open project, in percent of one core
    async wake_ms(directory, waiting)         the median from an answer until its tool runs
    async schedule(directory, count, due_in=) stores schedules; returns when they are due
    async burst(directory, due, n)            from the due time to the start of the last task, and
                                              the CPU time of the process in between
"""

import asyncio
import statistics
import sys
import tempfile
from typing import Any

from bench.kit import adapter, calibrate

MANY, BURST = 10_000, 1000
IDLE_S, OPENINGS = 10.0, 5


async def _measure(loaded: Any, scratch: str) -> dict[str, Any]:
    share = 100 if calibrate.in_a_hurry() else 1
    seconds = 1.0 if calibrate.in_a_hurry() else IDLE_S
    figures: dict[str, Any] = {"cal_ms": calibrate.wait(5)}
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        await loaded.start_seconds(directory)
        empty = await _start(loaded, directory)
        idle = await loaded.idle_pct(directory, seconds)
        waiting = await loaded.park(directory, max(MANY // share, 40))
        figures["start_10k_s"] = max(await _start(loaded, directory) - empty, 0)
        parked = await loaded.idle_pct(directory, seconds)
        figures |= {"idle_pct": idle, "parked_idle_cpu_pct": max(parked - idle, 0)}
        figures["wake_ms"] = await loaded.wake_ms(directory, waiting)
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        await loaded.schedule(directory, MANY // share, due_in=None)
        figures["schedules_idle_pct"] = await loaded.idle_pct(directory, seconds)
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        count = BURST // share
        due = await loaded.schedule(directory, count, due_in=3)
        wall, cpu = await loaded.burst(directory, due, count)
        figures |= {"burst_1000_s": wall, "burst_1000_cpu_s": cpu}
    return figures


async def _start(loaded: Any, directory: str) -> float:
    count = 1 if calibrate.in_a_hurry() else OPENINGS
    taken = [await loaded.start_seconds(directory) for _ in range(count)]
    return float(statistics.median(taken))


async def main() -> None:
    """Load the adapter in the first argument, and measure on the disk of the second."""
    loaded = adapter.load(sys.argv[1])
    adapter.report(loaded, await _measure(loaded, sys.argv[2]))


if __name__ == "__main__":
    asyncio.run(main())
