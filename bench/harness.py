"""Bounded child processes in the environments of what is measured, and the line that comes out."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.kit import calibrate

ROOT = Path(__file__).resolve().parents[1]
HOME = Path(os.environ.get("BENCH_HOME") or ROOT / ".bench").resolve()
SCRATCH = HOME / "scratch"
CALIBRATION = HOME / "calibration.json"

SILENCE = {
    "AGNO_TELEMETRY": "false",
    "DO_NOT_TRACK": "1",
    "ENABLE_INSTRUMENTATION": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore",
}
"""No framework may trace, report home or warn while it is measured."""

SHARED = {"agno-sqlite": "agno", "langgraph": "langchain"}
"""Targets that live in another's environment."""
OURS = {"penstock", "raw"}
"""Targets that need no environment of their own."""

Line = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line said."""

    target: str = "penstock"
    repeat: int = 3
    """Fresh processes, of which the best figures are kept."""
    limit: float = 280
    """Seconds in all."""


def interpreter(target: str) -> str:
    """Return the Python that a target is installed for."""
    if target in OURS:
        return sys.executable
    environment = SHARED.get(target, target)
    path = HOME / environment / "bin" / "python"
    if not path.exists():
        raise SystemExit(f"no environment for {target!r}: run bench/setup.sh {environment}")
    return str(path)


def adapter(bench: str, target: str) -> str:
    """Return the module that plugs a target into a bench."""
    if target == "penstock":
        return f"bench.own.{bench}"
    return f"bench.adapters.{bench}_{target.replace('-', '_')}"


def quiet_ms() -> float | None:
    """Return the best calibration ever seen on this machine."""
    return float(json.loads(CALIBRATION.read_text())["quiet_ms"]) if CALIBRATION.exists() else None


def note_quiet(ms: float) -> None:
    """Keep a calibration, if it is the best."""
    HOME.mkdir(parents=True, exist_ok=True)
    CALIBRATION.write_text(json.dumps({"quiet_ms": min(ms, quiet_ms() or ms)}))


def scratch() -> Path:
    """Return the folder for databases, on the disk that is measured."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    return SCRATCH


def environment(**more: str) -> dict[str, str]:
    """Return the variables of a child. It may write bytecode, as an installed package has it."""
    found = {"PYTHONPATH": str(ROOT), "BENCH_QUIET_MS": str(quiet_ms() or "")}
    found["PYTHONDONTWRITEBYTECODE"] = ""
    return os.environ | SILENCE | found | more


def child(target: str, module: str, *arguments: str, timeout: float) -> Line:
    """Run a part of the kit in the target's environment and return what it reports."""
    command = [interpreter(target), "-m", f"bench.kit.{module}", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environment(), check=False
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{module} of {target} was stopped after {timeout:.0f} s") from None
    result = reported(done.stdout)
    if result is None:
        said = f"{done.stdout[-1500:]}\n{done.stderr[-3000:]}"
        raise SystemExit(f"{module} of {target} gave no result (exit {done.returncode})\n{said}")
    if "quiet_ms" in result:
        note_quiet(result["quiet_ms"])
    return result


def reported(output: str) -> Line | None:
    """Find the result in what a part of the kit printed."""
    for line in reversed(output.splitlines()):
        if line.startswith("RESULT "):
            found: Line = json.loads(line.removeprefix("RESULT "))
            return found
    return None


def repeated(
    options: Options,
    run: Callable[[float], Line],
    merge: Callable[[Line, Line], Line],
) -> Line:
    """Run as often as the options say but never past their limit, and merge what came out."""
    end, longest = time.monotonic() + options.limit, 0.0
    merged: Line | None = None
    for count in range(1, options.repeat + 1):
        started = time.monotonic()
        if merged is not None and started + 1.2 * longest > end:
            break
        progress(f"{options.target}: {count} of {options.repeat}")
        result = run(end - started) | {"repeats": count}
        merged = result if merged is None else merge(merged, result) | {"repeats": count}
        longest = max(longest, time.monotonic() - started)
    if merged is None:
        raise SystemExit("--repeat must be at least 1")
    return merged


def smallest(one: Any, other: Any) -> Any:
    """Merge two results of one shape: minima of numbers, windows whole by their figure."""
    match one:
        case {"cal_ms": _, "us": _} | {"cal_ms": _, "step_ms": _}:
            return min(one, other, key=lambda window: window.get("us", window.get("step_ms")))
        case dict():
            return {key: smallest(value, other.get(key, value)) for key, value in one.items()}
        case int() | float() if not isinstance(one, bool):
            return min(one, other)
        case _:
            return one


def line(bench: str, target: str, figures: Line) -> Line:
    """Return the finished line: the figures, rounded, and when and where they were taken."""
    ratio = figures.get("cal_ms", 0) / figures["quiet_ms"] if figures.get("cal_ms") else None
    return {
        "bench": bench,
        "target": target,
        **{key: _rounded(value) for key, value in figures.items() if value is not None},
        **({"calibration_ratio": round(ratio, 2)} if ratio else {}),
        **({"quick": True} if calibrate.in_a_hurry() else {}),
        "cpus": os.cpu_count(),
        "load_1m": round(os.getloadavg()[0], 2),
        "date": time.strftime("%Y-%m-%dT%H:%M"),
    }


def progress(text: str) -> None:
    """Report progress on stderr, without touching the line of figures."""
    print(text, file=sys.stderr, flush=True)


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return round(value) if value >= 1000 else round(value, 1) if value >= 10 else round(value, 3)
