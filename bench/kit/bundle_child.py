"""Measures what it takes to read a thousand scripts: the first time, and in the next process.

The adapter of this bench is a file with
    DISTRIBUTION                     what is measured
    begin(cache, kept)               returns a context; native code and what was read are kept there
    warm(context)                    loads the engine
    write(folder, number)            writes so many scripts
    load_all(context, folder, number)  reads them
    end(context)
"""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.kit import adapter, calibrate

SCRIPTS = 1000


def main() -> None:
    """Load the adapter in the first argument, and measure with the cache in the second."""
    name, cache, *rest = sys.argv[1:]
    loaded = adapter.load(name)
    if rest:
        print(_seconds(loaded, cache, rest[0], is_warm=False))
        return
    calibrate.expect(None)
    with TemporaryDirectory(dir=Path(cache).parent) as folder:
        loaded.write(folder, SCRIPTS)
        check = _seconds(loaded, cache, folder, is_warm=True)
        command = [sys.executable, "-m", "bench.kit.bundle_child", name, cache, folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    figures = {"check_1000_s": check, "load_1000_s": float(done.stdout)}
    adapter.report(loaded, figures)


def _seconds(loaded: Any, cache: str, folder: str, *, is_warm: bool) -> float:
    context = loaded.begin(cache, f"{folder}/kept")
    if is_warm:
        loaded.warm(context)
    started = time.perf_counter()
    loaded.load_all(context, folder, SCRIPTS)
    took = time.perf_counter() - started
    loaded.end(context)
    return took


if __name__ == "__main__":
    main()
