"""The engine wasm, hardened: QuickJS in wasm, in a process of its own that the system confines."""

import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.core.clock import Clock
from penstock.sandbox.blobs import FOLDER as BLOBS
from penstock.sandbox.blobs import machine_code
from penstock.sandbox.processes.process import LOOKED_AT, SYSTEM, Command
from penstock.sandbox.processes.process_sandbox import ProcessSandbox
from penstock.sandbox.processes.slots import ProcessSlots
from penstock.sandbox.script import WASM
from penstock.sandbox.wasm.wasi import BLOB, start_engine

_PACKAGE = Path(__file__).parents[2]
_PYTHON_MB = 512
"""What Python, wasmtime and the machine code take, beyond the script's memory."""


def open_wasm_apart(
    clock: Clock, cache: Path, layers: Sequence[str], slots: ProcessSlots | None = None
) -> ProcessSandbox:
    """Return the Sandbox; what has to be compiled is compiled now."""
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
    """Return how a worker is started."""
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
