"""What a Python program pays for the library: imports, typed output, a stream, a map."""

import subprocess
import sys

from bench import harness
from bench.harness import Line, Options

IMPORTS = {"import_ms": "import penstock", "import_agent_ms": "from penstock import Agent, tool"}
STARTS = 7
"""Fresh processes for each import, of which the fastest counts."""
TIMED = "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"


def measure(options: Options) -> Line:
    """Measure in fresh processes, and keep the best of each figure."""
    raw = harness.repeated(
        options,
        lambda left: harness.child("penstock", "library_child", timeout=left),
        harness.smallest,
    )
    windows = raw.pop("windows")
    took = {name: window["us"] for name, window in windows.items()}
    figures = {
        "typed_output_us": took["typed"] - took["plain"],
        "turn_us": took["plain"],
        "stream_piece_us": took["stream"],
        "map_per_cpu_s": 1e6 / took["map"],
        "cal_ms": max(window["cal_ms"] for window in windows.values()),
        **{name: _import_ms(statement) for name, statement in IMPORTS.items()},
        **raw,
    }
    return harness.line("library", "penstock", figures)


def _import_ms(statement: str) -> float:
    command = [sys.executable, "-c", TIMED.format(statement)]
    runs = [
        subprocess.run(
            command, capture_output=True, text=True, check=True, env=harness.environment()
        )
        for _ in range(STARTS)
    ]
    return min(float(run.stdout) for run in runs) * 1e3
