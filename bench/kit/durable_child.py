"""Measures what one durable step on SQLite costs in this process.

An adapter of this bench is a file with
    DISTRIBUTION                         what is measured
    MODES                                such as ["full", "normal"]
    UNIT                                 what one step is
    async begin(mode, directory)         returns a context; its database goes under directory
    async run(context, steps)            one fresh run of `steps` durable steps, one after another
    async end(context)
A step's time is wall time, because a commit waits for the disk: the best run of so many steps, less
the best run of none, per step. Its CPU time is that of the whole process.
"""

import asyncio
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.kit import adapter, calibrate

STEPS, LONG = 100, 300
CONCURRENT, SHORT = 10, 20
"""Ten runs at once, each of so many steps."""
GROWTH_RUNS = 3


async def _measure(loaded: Any, mode: str, scratch: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        context = await loaded.begin(mode, directory)
        try:
            empty = await _best(loaded, context, 1, 0)
            full = await _best(loaded, context, 1, STEPS)
            empty_ten = await _best(loaded, context, CONCURRENT, 0)
            ten = await _best(loaded, context, CONCURRENT, SHORT)
            each = CONCURRENT * SHORT
            return {
                "step_ms": (full["min"][0] - empty["min"][0]) / STEPS * 1e3,
                "step_p50_ms": (full["p50"] - empty["p50"]) / STEPS * 1e3,
                "step_cpu_ms": (full["min"][1] - empty["min"][1]) / STEPS * 1e3,
                "step_10_ms": (ten["min"][0] - empty_ten["min"][0]) / each * 1e3,
                "empty_run_ms": empty["min"][0] * 1e3,
                "cal_ms": full["cal_ms"],
                "bytes_per_step": await _growth(loaded, context, directory, STEPS),
                "bytes_per_step_300": await _growth(loaded, context, directory, LONG),
            }
        finally:
            await loaded.end(context)


async def _best(loaded: Any, context: Any, runs: int, steps: int) -> dict[str, Any]:
    async def sample() -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*[loaded.run(context, steps) for _ in range(runs)])
        return time.perf_counter() - wall, time.process_time() - cpu

    seconds, least = (2.0, 3) if steps else (0.7, 5)
    return await calibrate.window(sample, seconds, least, most=500)


async def _growth(loaded: Any, context: Any, directory: str, steps: int) -> float:
    before = _stored(directory)
    for _ in range(GROWTH_RUNS):
        await loaded.run(context, steps)
    return (_stored(directory) - before) / GROWTH_RUNS / steps


def _stored(directory: str) -> int:
    """Count the bytes of the databases once the write-ahead log is folded in."""
    databases = [p for p in Path(directory).rglob("*") if p.suffix in {".db", ".sqlite"}]
    for path in databases:
        connection = sqlite3.connect(path, timeout=10)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
    return sum(path.stat().st_size for path in databases)


async def main() -> None:
    """Measure every mode of the adapter in the first argument, on the disk of the second."""
    loaded = adapter.load(sys.argv[1])
    modes = {mode: await _measure(loaded, mode, sys.argv[2]) for mode in loaded.MODES}
    adapter.report(loaded, {"modes": modes, "unit": loaded.UNIT})


if __name__ == "__main__":
    asyncio.run(main())
