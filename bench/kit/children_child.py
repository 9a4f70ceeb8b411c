"""Measures a call that splits its work into 32 children, whose models have no latency.

The adapter of this bench is a file with
    DISTRIBUTION                       what is measured
    async begin(directory)             returns a context, on a new database under directory
    async split(context, n, batch=)    a call that requests n children, together or one after
                                       another, and returns when it has their results
    async end(context)
"""

import asyncio
import sys
import tempfile
import time
from typing import Any

from bench.kit import adapter, calibrate

CHILDREN = 32


async def _measure(loaded: Any, directory: str) -> dict[str, Any]:
    context = await loaded.begin(directory)

    async def sample(*, batch: bool) -> tuple[float, float]:
        started, before = time.perf_counter(), time.process_time()
        await loaded.split(context, CHILDREN, batch=batch)
        return time.perf_counter() - started, time.process_time() - before

    try:
        together = await calibrate.window(lambda: sample(batch=True), 3, 5)
        in_turn = await calibrate.window(lambda: sample(batch=False), 3, 5)
    finally:
        await loaded.end(context)
    return {
        "children32_s": together["p50"],
        "children32_cpu_s": together["min"][1],
        "children32_in_turn_s": in_turn["p50"],
        "children32_in_turn_cpu_s": in_turn["min"][1],
    }


async def main() -> None:
    """Load the adapter in the first argument, and measure on the disk of the second."""
    loaded = adapter.load(sys.argv[1])
    with tempfile.TemporaryDirectory(dir=sys.argv[2]) as directory:
        adapter.report(loaded, await _measure(loaded, directory))


if __name__ == "__main__":
    asyncio.run(main())
