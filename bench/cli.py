"""How long a person waits for `penstock --help`."""

import asyncio
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE

from bench import harness
from bench.harness import Line, Options
from bench.kit import calibrate

COMMAND = (sys.executable, "-m", "penstock", "--help")
MIN_SAMPLES = 5


def measure(options: Options) -> Line:
    """Start the command repeatedly, and keep the best and the median time."""
    calibrate.expect(harness.quiet_ms())
    got = asyncio.run(calibrate.window(_sample, options.repeat, MIN_SAMPLES))
    harness.note_quiet(calibrate.best_ms())
    figures = {
        "help_ms": got["min"][0] * 1e3,
        "help_p50_ms": got["p50"] * 1e3,
        "samples": got["samples"],
        "cal_ms": got["cal_ms"],
        "quiet_ms": calibrate.best_ms(),
    }
    return harness.line("cli", "penstock", figures)


async def _sample() -> tuple[float]:
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(*COMMAND, stdout=DEVNULL, stderr=PIPE)
    said = (await process.communicate())[1]
    took = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"--help ended with {process.returncode}: {said.decode()[-1500:]}")
    return (took,)
