"""Measures calls that a script makes through the whole door, with the ledger on.

The adapter of this bench is a file with
    DISTRIBUTION                       what is measured
    async begin(cache, directory)      returns a context: a project with scripts
    async ask(context, number, together)  runs a script that makes so many calls of a read tool
    async invoke(context, number)      runs so many scripts at once, each of which makes five calls
    async end(context)
"""

import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.kit import adapter, calibrate

CALLS = 1000
SCRIPTS = 50


async def _measure(loaded: Any, cache: str, directory: str) -> dict[str, Any]:
    context = await loaded.begin(cache, directory)

    async def timed(work: Any) -> tuple[float]:
        started = time.perf_counter()
        await work
        return (time.perf_counter() - started,)

    try:
        await loaded.ask(context, 10, together=False)
        one = await calibrate.window(
            lambda: timed(loaded.ask(context, CALLS, together=False)), 3, 5
        )
        all_ = await calibrate.window(
            lambda: timed(loaded.ask(context, CALLS, together=True)), 3, 5
        )
        many = await calibrate.window(lambda: timed(loaded.invoke(context, SCRIPTS)), 3, 5)
    finally:
        await loaded.end(context)
    return {
        "nested_us": one["min"][0] / CALLS * 1e6,
        "all_us": all_["min"][0] / CALLS * 1e6,
        "invocation_ms": many["min"][0] / SCRIPTS * 1e3,
        "cal_ms": max(window["cal_ms"] for window in (one, all_, many)),
    }


async def main() -> None:
    """Load the adapter in the first argument, and measure with the cache in the second."""
    name, cache = sys.argv[1:]
    loaded = adapter.load(name)
    calibrate.expect(None)
    with TemporaryDirectory(dir=Path(cache).parent) as directory:
        figures = await _measure(loaded, cache, directory)
    adapter.report(loaded, figures)


if __name__ == "__main__":
    asyncio.run(main())
