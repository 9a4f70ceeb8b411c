"""A fixed piece of pure Python work, whose CPU time tells machines, and their moments, apart.

A shared machine can run at half speed for seconds at a time with nothing to see in its load
average. So every window of samples is bracketed by this work: it counts as quiet when the work ran
within 20% of the best ever seen on this machine (BENCH_QUIET_MS), and is extended, within bounds,
until it was. The work allocates next to nothing, so the heap of what is measured does not show.
"""

import gc
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

NEAR = 1.2
"""How much slower than the best a moment may be and still count as quiet."""
ROUNDS = 60_000
BETWEEN_READINGS_S = 0.1

_seen = {"best": float(os.environ.get("BENCH_QUIET_MS") or "inf")}


def now_ms(rounds: int = 1) -> float:
    """Return the CPU time of the work, best of `rounds`."""
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        _work()
        best = min(best, (time.process_time() - started) * 1e3)
    _seen["best"] = min(_seen["best"], best)
    return best


def in_a_hurry() -> bool:
    """Tell whether one sample of each will do, to see that a bench runs, not to learn a figure."""
    return bool(os.environ.get("BENCH_QUICK"))


def expect(ms: float | None) -> None:
    """Take over a best reading kept from earlier runs."""
    _seen["best"] = min(_seen["best"], ms or _seen["best"])


def best_ms() -> float:
    """Return the best reading so far."""
    return _seen["best"]


def wait(seconds: float) -> float:
    """Wait for a quiet moment, at most so long, and return the last reading."""
    end = time.monotonic() + seconds
    while True:
        ms = now_ms(5)
        if _quiet(ms) or time.monotonic() > end or in_a_hurry():
            return ms
        time.sleep(0.2)


async def window(
    sample: Callable[[], Awaitable[tuple[float, ...]]],
    seconds: float,
    least: int,
    *,
    most: int = 2000,
    patience: int = 4,
) -> dict[str, Any]:
    """Repeat `sample` and keep the minimum of each number.

    At least `least` times and for `seconds`, at most `most` times; up to `patience` times longer
    while no quiet moment was seen. `cal_ms` is the best reading inside the window.
    """
    if in_a_hurry():
        seconds, least = 0, 1
    await sample()
    gc.collect()
    wait(2)
    kept: list[tuple[float, ...]] = []
    cal, checked, started = float("inf"), 0.0, time.perf_counter()
    while True:
        now = time.perf_counter()
        if now - checked > BETWEEN_READINGS_S:
            cal, checked = min(cal, now_ms(2)), now
        enough = len(kept) >= least and (now - started > seconds or len(kept) >= most)
        patient = now - started <= seconds * patience and not in_a_hurry()
        if enough and (_quiet(cal) or not patient):
            return _summary(kept) | {"cal_ms": cal}
        kept.append(await sample())


def _work() -> int:
    total, table = 0, {i: i for i in range(64)}
    for i in range(ROUNDS):
        total += table[i & 63] ^ i
    return total


def _quiet(ms: float) -> bool:
    return ms <= NEAR * _seen["best"]


def _summary(samples: list[tuple[float, ...]]) -> dict[str, Any]:
    firsts = sorted(sample[0] for sample in samples)
    smallest = tuple(min(column) for column in zip(*samples, strict=True))
    return {"min": smallest, "p50": firsts[len(firsts) // 2], "samples": len(samples)}
