"""The hardened engine `wasm`: QuickJS in wasm, in a process that the operating system confines."""

import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.core.clock import Clock
from penstock.sandbox.blobs import FOLDER as BLOBS
from penstock.sandbox.blobs import machine_code
from penstock.sandbox.processes.process import LOOKED_AT, SYSTEM, Command
from penstock.sandbox.processes.process_sandbox import ProcessSandbox
from penstock.sandbox.processes.process_slots import ProcessSlots
from penstock.sandbox.script import WASM
from penstock.sandbox.wasm.wasi import BLOB, start_engine

_PACKAGE = Path(__file__).parents[2]
_PYTHON_MB = 512
"""Memory of Python, wasmtime and the machine code, in addition to the script's."""


def open_wasm_process(
    clock: Clock, cache: Path, layers: Sequence[str], slots: ProcessSlots | None = None
) -> ProcessSandbox:
    """Return the Sandbox. Compiles the machine code first if it is not cached."""
    # A confined worker may only read the cache, so it could not write what it compiles.
    if not machine_code(BLOB, cache).exists():
        start_engine(clock, cache).close()
    return ProcessSandbox(
        WASM,
        clock,
        lambda memory_mb: command(cache, memory_mb, layers),
        lambda _: None,
        slots=slots,
    )


def command(cache: Path, memory_mb: int, layers: Sequence[str]) -> Command:
    """Return the command of a worker with its confinement."""
    interpreter = [sys.executable, sys.prefix, sys.base_prefix, sys.base_exec_prefix]
    return Command(
        argv=[sys.executable, "-I", "-m", "penstock.sandbox.processes.worker", str(cache)],
        folder=Path("/"),
        environment={"PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC"},
        limits={"CORE": 0, "FSIZE": 0, "DATA": (_PYTHON_MB + memory_mb) << 20},
        layers=layers,
        execute=[*interpreter, *SYSTEM, *map(str, sorted({_PACKAGE, BLOBS.resolve()}))],
        read=[str(cache), *LOOKED_AT],
        list=[str(_PACKAGE.parent)],
    )
