"""Measures what flows of agents cost whose model answers at once.

The adapter of this bench is a file with
    DISTRIBUTION                          what is measured
    META                                  what else the line should say
    async begin(lengths, directory)       returns a context with flows of so many steps, one after
                                          another; in memory, if there is no directory
    async run(context, length)            one run of the flow that is so long
    async end(context)
    async die_at_the_end(directory, length)  runs one on disk; kills its process in the last step
    async resume(directory, length)       opens what a killed process left, and ends its run
    text(length)                          the file of such a flow
    read(text), plan(flow), check(text)   reads it, plans a run of it, checks it
"""

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.kit import adapter, calibrate

LENGTHS = (10, 1000)
CHECKED = 200
CONCURRENT = 100
Sample = Callable[[], Awaitable[tuple[float, ...]]]


async def _measure(loaded: Any, name: str, scratch: str) -> dict[str, Any]:
    source, long = loaded.text(CHECKED), loaded.text(LENGTHS[-1])
    flow = loaded.read(long)
    planned = await calibrate.window(_cpu(lambda: loaded.plan(flow)), 1, 5)
    checked = await calibrate.window(_cpu(lambda: loaded.check(source)), 1, 5)
    read = await calibrate.window(_cpu(lambda: loaded.read(long)), 1, 3)
    steps = [await _step(loaded, length) for length in LENGTHS]
    with TemporaryDirectory(dir=scratch) as directory:
        many = await _many(loaded, directory)
    with TemporaryDirectory(dir=scratch) as directory:
        resumed = await _resumed(name, Path(directory))
    windows = (planned, checked, read, *steps, many, resumed)
    return {
        **{
            f"step_us_{n}": each["min"][0] / n * 1e6 for n, each in zip(LENGTHS, steps, strict=True)
        },
        f"plan_{LENGTHS[-1]}_ms": planned["min"][0] * 1e3,
        f"read_{LENGTHS[-1]}_ms": read["min"][0] * 1e3,
        f"check_{CHECKED}_ms": checked["min"][0] * 1e3,
        f"resume_{LENGTHS[-1]}_s": resumed["min"][0],
        "at_once_s": many["min"][0] / (CONCURRENT * LENGTHS[0]),
        "cal_ms": max(each["cal_ms"] for each in windows),
        **loaded.META,
    }


def _cpu(work: Callable[[], object]) -> Sample:
    async def sample() -> tuple[float]:
        started = time.process_time()
        work()
        return (time.process_time() - started,)

    return sample


async def _step(loaded: Any, length: int) -> dict[str, Any]:
    """Run a flow in memory; the first run, which reads the file, does not count."""
    context = await loaded.begin([length], None)

    async def sample() -> tuple[float]:
        started = time.process_time()
        await loaded.run(context, length)
        return (time.process_time() - started,)

    try:
        return await calibrate.window(sample, 1.5, 3)
    finally:
        await loaded.end(context)


async def _many(loaded: Any, directory: str) -> dict[str, Any]:
    """Run short flows at once on disk."""
    context = await loaded.begin([LENGTHS[0]], directory)

    async def sample() -> tuple[float]:
        started = time.perf_counter()
        await asyncio.gather(*(loaded.run(context, LENGTHS[0]) for _ in range(CONCURRENT)))
        return (time.perf_counter() - started,)

    try:
        return await calibrate.window(sample, 4, 3)
    finally:
        await loaded.end(context)


async def _resumed(name: str, directory: Path) -> dict[str, Any]:
    """Kill a process in the last step of a long flow, and end its run in new ones."""
    killed, left = directory / "killed", directory / "left"
    killed.mkdir()
    done = _process(name, killed, "die")
    if done.returncode != -signal.SIGKILL:
        raise SystemExit(f"the run to be killed ended with {done.returncode}: {done.stderr}")

    async def sample() -> tuple[float]:
        shutil.copytree(killed, left)
        ended = await asyncio.to_thread(_process, name, left, "resume")
        shutil.rmtree(left)
        if ended.returncode:
            raise SystemExit(f"the run was not resumed: {ended.stderr}")
        return (float(ended.stdout),)

    return await calibrate.window(sample, 3, 3)


def _process(name: str, directory: Path, act: str) -> subprocess.CompletedProcess[str]:
    """Run a long flow until it is killed in the last step, or from there to its end."""
    command = [sys.executable, "-m", "bench.kit.flow_child", name, str(directory), act]
    return subprocess.run(command, capture_output=True, text=True, check=False)


async def main() -> None:
    """Load the adapter in the first argument, and measure on the disk of the second."""
    name, directory, *act = sys.argv[1:]
    loaded = adapter.load(name)
    match act:
        case ["die"]:
            await loaded.die_at_the_end(directory, LENGTHS[-1])
        case ["resume"]:
            started = time.perf_counter()
            await loaded.resume(directory, LENGTHS[-1])
            print(time.perf_counter() - started)
        case _:
            adapter.report(loaded, await _measure(loaded, name, directory))


if __name__ == "__main__":
    asyncio.run(main())
