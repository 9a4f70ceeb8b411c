"""Measures what a long conversation costs in this process: to fold it, and to answer in it.

The adapter of this bench is a file with
    DISTRIBUTION                         what is measured
    async begin(directory)               returns a context, on a new database under directory
    async fill(context, events)          writes a conversation so long; returns its name
    async fold(context, name)            reads and folds the whole conversation, no cache
    async first_event(context, name)     asks there, in a new conversation if name is None, and
                                         returns the seconds until the first event of the answer
    async end(context)
A conversation is warm when it was asked in before: what is remembered of it is used then.
"""

import asyncio
import sys
import tempfile
import time
from typing import Any

from bench.kit import adapter, calibrate

EVENTS = 10_000


async def _measure(loaded: Any, scratch: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        context = await loaded.begin(directory)
        try:
            name = await loaded.fill(context, EVENTS)

            async def cold() -> tuple[float]:
                started = time.perf_counter()
                await loaded.fold(context, name)
                return (time.perf_counter() - started,)

            async def warm() -> tuple[float]:
                return (await loaded.first_event(context, name),)

            async def new() -> tuple[float]:
                return (await loaded.first_event(context, None),)

            folded = await calibrate.window(cold, 2.0, 3, most=30)
            answered = await calibrate.window(warm, 2.0, 10, most=300)
            first_events = await calibrate.window(new, 2.0, 10, most=300)
        finally:
            await loaded.end(context)
    return {
        "events": EVENTS,
        "cold_10k_ms": folded["min"][0] * 1e3,
        "cold_10k_p50_ms": folded["p50"] * 1e3,
        "warm_first_event_ms": answered["p50"] * 1e3,
        "warm_first_event_best_ms": answered["min"][0] * 1e3,
        "new_first_event_ms": first_events["p50"] * 1e3,
        "new_first_event_best_ms": first_events["min"][0] * 1e3,
        "cal_ms": max(folded["cal_ms"], answered["cal_ms"], first_events["cal_ms"]),
    }


async def main() -> None:
    """Load the adapter in the first argument, and measure on the disk of the second."""
    loaded = adapter.load(sys.argv[1])
    adapter.report(loaded, await _measure(loaded, sys.argv[2]))


if __name__ == "__main__":
    asyncio.run(main())
