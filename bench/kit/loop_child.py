"""Measures what an agent loop costs in this process: CPU time, best of many.

An adapter of this bench is a file with
    DISTRIBUTION          what is measured: its name on PyPI, for the version
    META                  optional: what else the line should say, such as its persistence
    make()                a new agent: fake model and one async tool add(a: int, b: int) -> int
    async run(agent)      one run in a fresh conversation; returns the final text
and, if agents need something that is opened and closed around them,
    opened()              an async context manager, entered before the first agent is made
"""

import asyncio
import contextlib
import gc
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

from bench.kit import adapter, calibrate, script

AGENTS = 50
BATCHES, CONCURRENT = 4, 200
Sample = Callable[[], Awaitable[tuple[float, ...]]]
clock = time.process_time


async def _measure(loaded: Any, lengths: list[int]) -> dict[str, Any]:
    agent = loaded.make()
    plan = [(0, 1), (1, 1), (1, 10), *((n, 1) for n in lengths)]
    windows = {"instantiate": await calibrate.window(_instantiate(loaded), 0.7, 3)}
    for turns, width in plan:
        least = 5 if turns <= 10 else 2
        sample = _run(loaded, agent, turns, width)
        windows[f"{turns}x{width}"] = await calibrate.window(sample, 1.2, least)
    windows["concurrent"] = await calibrate.window(_batch(loaded, agent), 1.5, 2)
    return {
        "windows": {
            name: {"us": got["min"][0] * 1e6, "cal_ms": got["cal_ms"]}
            for name, got in windows.items()
        },
        "kib_per_agent": _memory_kib(loaded),
    }


def _instantiate(loaded: Any) -> Sample:
    async def sample() -> tuple[float]:
        started = clock()
        agents = [loaded.make() for _ in range(AGENTS)]
        return ((clock() - started) / len(agents),)

    return sample


def _run(loaded: Any, agent: Any, turns: int, width: int) -> Sample:
    async def sample() -> tuple[float]:
        started = clock()
        await _one(loaded, agent, turns, width)
        return (clock() - started,)

    return sample


def _batch(loaded: Any, agent: Any) -> Sample:
    async def sample() -> tuple[float]:
        started = clock()
        for _ in range(BATCHES):
            await asyncio.gather(*[_one(loaded, agent, 1, 1) for _ in range(CONCURRENT)])
        return ((clock() - started) / (BATCHES * CONCURRENT),)

    return sample


async def _one(loaded: Any, agent: Any, turns: int, width: int) -> None:
    scripted = script.start(turns, width)
    scripted.check(await loaded.run(agent))


def _memory_kib(loaded: Any) -> float:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    agents = [loaded.make() for _ in range(AGENTS)]
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / len(agents) / 1024


async def main() -> None:
    """Load the adapter in the first argument, and measure runs of the lengths in the second."""
    started = clock()
    loaded = adapter.load(sys.argv[1])
    imported = clock() - started
    async with getattr(loaded, "opened", contextlib.AsyncExitStack)():
        figures = await _measure(loaded, [int(n) for n in sys.argv[2].split(",")])
    meta = getattr(loaded, "META", {})
    adapter.report(loaded, figures | {"import_cpu_s": imported, "meta": meta})


if __name__ == "__main__":
    asyncio.run(main())
