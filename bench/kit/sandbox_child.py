"""Measures what a script costs in this process: warm, through a thread, and at rest.

The adapter of this bench is a file with
    DISTRIBUTION                         what is measured
    async begin(cache, in_threads)       returns a context; native code is kept in the folder
    async call(context)                  runs a script that returns at once
    async ask(context, number, together) runs a script that makes so many host calls
    async park(context, number)          starts scripts that wait; returns when all of them do
    async end(context)
"""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.kit import adapter, calibrate

PARKED = 200
ASKED = 1000
MIB = 1 << 20


async def _measure(loaded: Any, cache: str) -> dict[str, Any]:
    inline = await loaded.begin(cache, in_threads=False)
    threads = await loaded.begin(cache, in_threads=True)

    async def timed(work: Any) -> tuple[float]:
        started = time.perf_counter()
        await work
        return (time.perf_counter() - started,)

    try:
        warm = await calibrate.window(lambda: timed(loaded.call(inline)), 2.0, 100)
        pool = await calibrate.window(lambda: timed(loaded.call(threads)), 2.0, 100)
        one = await calibrate.window(
            lambda: timed(loaded.ask(inline, ASKED, together=False)), 2.0, 5
        )
        all_ = await calibrate.window(
            lambda: timed(loaded.ask(inline, ASKED, together=True)), 2.0, 5
        )
        before = _resident()
        await loaded.park(inline, PARKED)
        resting = (_resident() - before) / PARKED
    finally:
        await loaded.end(inline)
        await loaded.end(threads)
    return {
        "warm_ms": warm["p50"] * 1e3,
        "warm_best_ms": warm["min"][0] * 1e3,
        "pool_ms": pool["p50"] * 1e3,
        "pool_best_ms": pool["min"][0] * 1e3,
        "host_call_us": one["min"][0] / ASKED * 1e6,
        "host_call_in_all_us": all_["min"][0] / ASKED * 1e6,
        "mib_per_vm": resting / MIB,
        "cal_ms": max(window["cal_ms"] for window in (warm, pool, one, all_)),
    }


async def _first(loaded: Any, cache: str) -> None:
    context = await loaded.begin(cache, in_threads=False)
    await loaded.call(context)
    await loaded.end(context)


def _first_call_ms(name: str, cache: str) -> float:
    """Return what a fresh process takes from its start to the end of its first script."""
    command = [sys.executable, "-m", "bench.kit.sandbox_child", name, cache, "first"]
    taken = []
    for _ in range(1 if calibrate.in_a_hurry() else 5):
        started = time.perf_counter()
        subprocess.run(command, check=True, timeout=60)
        taken.append(time.perf_counter() - started)
    return min(taken) * 1e3


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def main() -> None:
    """Load the adapter in the first argument, and measure with the cache in the second."""
    name, cache, *rest = sys.argv[1:]
    if rest:
        await _first(adapter.load(name), cache)
        return
    loaded = adapter.load(name)
    calibrate.expect(None)
    figures = await _measure(loaded, cache)
    adapter.report(loaded, figures | {"first_call_ms": _first_call_ms(name, cache)})


if __name__ == "__main__":
    asyncio.run(main())
