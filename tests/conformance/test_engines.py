"""Every engine against the list of the first: what scripts may say, how they end, and attacks.

The engine wasm has it in the suite; here the same files run again, with another engine.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENTRIES = ("tests/sandbox/test_entry.py", "tests/sandbox/wasm/test_quickjs.py")
ASKED, ATTACKS = "tests/sandbox/wasm/test_quickjs.py", "tests/contracts/test_sandbox.py"
SOME = "loop_plain or memory_array or look_ or pollute_everything or tamper or throw or flood_of_b"
"""Of the attacks, and with them all entries: confinement is around an engine that has had all."""


def run_of(engine: str, *given: str) -> subprocess.CompletedProcess[str]:
    options = ("-q", f"--engine={engine}", "--test-seconds=20")
    command = [sys.executable, "-m", "pytest", *options, *given]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow("174 scripts run, each in a process of its own")
def test_deno_passes_the_listed_cases() -> None:
    done = run_of("deno", *ENTRIES, ASKED, ATTACKS)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.slow("each script has a process of its own, which is confined before it begins")
@pytest.mark.parametrize("engine", ["hardened deno", "hardened wasm"])
def test_confined_engines_do_too(engine: str) -> None:
    """One conformance list, run on both, hardened and not."""
    done = run_of(engine, *ENTRIES, ATTACKS, "-k", f"(not attack and not hold_nobody) or {SOME}")
    assert done.returncode == 0, done.stdout[-4000:]
