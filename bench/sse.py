"""A chat server under load: full runs over SSE, one worker, the client on the same machine."""

import signal
import sys
import time

from bench import harness, server
from bench.harness import Line, Options
from bench.kit import calibrate

LEVELS = {1: 100, 50: 400, 200: 1000}
"""Connections at once -> least runs; a run is a new conversation, one call of `add`, 20 deltas."""
BUSY = 200
PEERS = ("bare", "agent-framework", "agno", "agno-sqlite", "pydantic-ai")
SYNCHRONOUS = ("FULL", "NORMAL")
"""How penstock's log waits for the disk: the first is its default, and gives the plain keys."""


def measure(options: Options) -> Line:
    """Measure one server in fresh processes; the repeat with most runs per second counts."""
    server.open_many_files()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped too
    calibrate.expect(harness.quiet_ms())
    variants = SYNCHRONOUS if options.target == "penstock" else SYNCHRONOUS[:1]
    raw = harness.repeated(options, lambda left: _once(options.target, variants, left), _better)
    harness.note_quiet(calibrate.best_ms())
    figures = _figures(raw["FULL"])
    if options.target == "penstock":
        normal = _figures(raw["NORMAL"]) | {"synchronous": "NORMAL"}
        figures |= {"synchronous": "FULL"}
        figures |= {f"normal_{key}": value for key, value in normal.items() if key != "cal_ms"}
    about = {
        "persistence": server.CHATS[options.target].persistence,
        "version": server.version(options.target),
        "quiet_ms": harness.quiet_ms(),
        "repeats": raw["repeats"],
    }
    return harness.line("sse", options.target, figures | about)


def _once(target: str, variants: tuple[str, ...], seconds: float) -> Line:
    share = seconds / len(variants)
    return {name: _loaded(target, name, time.monotonic() + share) for name in variants}


def _loaded(target: str, synchronous: str, deadline: float) -> Line:
    with server.running(target, BENCH_SYNCHRONOUS=synchronous) as running:
        running.load(4, 20, 60)
        levels = {
            str(concurrency): _level(running, concurrency, runs, deadline)
            for concurrency, runs in LEVELS.items()
        }
        return {
            "levels": levels,
            "rss_mib": running.memory_mib(),
            "rss_peak_mib": running.memory_mib("VmHWM"),
            "written_mib": running.written_mib(),
        }


def _level(running: server.Server, concurrency: int, runs: int, deadline: float) -> Line:
    left = deadline - time.monotonic()
    if left < 5:
        raise SystemExit("out of time: give a higher --limit")
    before, busy = calibrate.wait(min(10, left / 10)), running.cpu_s()
    if calibrate.in_a_hurry():
        runs = concurrency
    got = running.load(concurrency, runs, left)
    got["cpu_ms_per_run"] = (running.cpu_s() - busy) / got["runs"] * 1e3
    got["cal_ms"] = max(before, calibrate.now_ms(5))
    return got


def _better(one: Line, other: Line) -> Line:
    """Keep per level the repeat with more runs per second, with the smaller CPU time of both."""
    merged: Line = {}
    for name in SYNCHRONOUS:
        if name in one:
            levels = {
                level: _better_level(got, other[name]["levels"][level])
                for level, got in one[name]["levels"].items()
            }
            rest = harness.smallest(one[name] | {"levels": {}}, other[name] | {"levels": {}})
            merged[name] = rest | {"levels": levels}
    return merged


def _better_level(one: Line, other: Line) -> Line:
    cpu = min(one["cpu_ms_per_run"], other["cpu_ms_per_run"])
    return max(one, other, key=lambda got: got["runs_per_s"]) | {"cpu_ms_per_run": cpu}


def _figures(raw: Line) -> Line:
    levels = raw.pop("levels")
    busy = levels[str(BUSY)]
    return {
        **{f"runs_per_s_{level}": got["runs_per_s"] for level, got in levels.items()},
        **{f"p50_ms_{level}": got["p50_ms"] for level, got in levels.items()},
        "p99_ms_200": busy["p99_ms"],
        "cpu_ms_per_run_1": levels["1"]["cpu_ms_per_run"],
        "cpu_ms_per_run_200": busy["cpu_ms_per_run"],
        "first_event_p50_ms_200": busy["first_event_p50_ms"],
        "events_per_run": busy["events_per_run"],
        **raw,
        "cal_ms": busy["cal_ms"],
    }
