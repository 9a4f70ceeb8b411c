"""The engine `deno`: V8 in a Deno process without permissions, one process for each entry."""

import importlib.metadata
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from penstock.core.call_errors import ToolNotConfigured
from penstock.core.clock import Clock
from penstock.sandbox.blobs import open_cache
from penstock.sandbox.processes.process import LOOKED_AT, SYSTEM, Command, Process
from penstock.sandbox.processes.process_sandbox import ProcessSandbox
from penstock.sandbox.processes.slots import ProcessSlots
from penstock.sandbox.script import DENO
from penstock.sandbox.sources import SDK, guest_source

RUNNER = SDK / "runner.mjs"
WANTED = "2.9."
"""The prefix of supported versions: flags and `vm` must be tested again with each new one."""
FLAGS = (
    *("--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock"),
    "--cached-only",
)
_CODE_MB = 560
"""Memory that V8 reserves: it does not start with less."""
_HEAP_MB = 32
"""Heap of V8 and the guest sources, in addition to the script's memory."""


def open_deno(
    clock: Clock, cache: Path, layers: Sequence[str] = (), slots: ProcessSlots | None = None
) -> ProcessSandbox:
    """Return the Sandbox. Raises ToolNotConfigured where Deno is not installed."""
    if missing := missing_deno():
        raise ToolNotConfigured(missing)
    folder = folder_of(cache)
    return ProcessSandbox(
        DENO,
        clock,
        lambda memory_mb: command(folder, memory_mb, layers),
        send_world,
        slots=slots,
    )


def send_world(process: Process) -> None:
    """Send the guest sources."""
    process.write("world", *_world())


def missing_deno() -> str:
    """Return why Deno cannot run scripts here, or an empty text."""
    if os.name != "posix":
        return f"the engine deno does not run on {sys.platform}: use the engine wasm"
    try:
        found = importlib.metadata.version("deno")
    except importlib.metadata.PackageNotFoundError:
        return "the engine deno is not installed: pip install 'penstock[deno]'"
    if not found.startswith(WANTED):
        return f"the engine deno needs deno {WANTED}*, found {found}: pip install 'penstock[deno]'"
    return "" if binary() else "the package deno has no program for this machine: reinstall it"


def binary() -> str:
    """Return the path of the program, or an empty text."""
    name = "deno.exe" if os.name == "nt" else "deno"
    folders = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    spec = importlib.util.find_spec("deno")
    if spec is not None and spec.origin is not None:
        folders.append(Path(spec.origin).parents[4] / "bin")
    return next((str(folder / name) for folder in folders if (folder / name).is_file()), "")


def command(folder: Path, memory_mb: int, layers: Sequence[str] = (), inspect: str = "") -> Command:
    """Return the command of a process. `inspect` is the address for DevTools, if any."""
    v8 = (
        f"--max-old-space-size={memory_mb + _HEAP_MB}",
        "--disallow-code-generation-from-strings",
        "--enable-experimental-regexp-engine-on-excessive-backtracks",
    )
    # With --quiet Deno does not print the address of the inspector.
    manner = f"--inspect-wait={inspect}" if inspect else "--quiet"
    flags = (*FLAGS, manner, f"--v8-flags={','.join(v8)}")
    program = binary()
    return Command(
        argv=[program, "run", *flags, str(RUNNER), *(("debug",) if inspect else ())],
        folder=folder / "empty",
        environment={"DENO_DIR": str(folder / "dir"), "NO_COLOR": "1", "TZ": "UTC"},
        limits={"CORE": 0, "FSIZE": 0, "DATA": (_CODE_MB + memory_mb) << 20},
        layers=layers,
        execute=[program, *SYSTEM],
        read=[str(RUNNER), str(folder), *LOOKED_AT],
    )


def folder_of(cache: Path) -> Path:
    """Return the folder of the engine. Deno is confined and cannot create its folders itself."""
    folder = cache / f"deno-{importlib.metadata.version('deno')}"
    open_cache(folder)
    for name in ("empty", "dir"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    return folder


@lru_cache(maxsize=1)
def _world() -> tuple[bytes, bytes]:
    return (SDK / "world_deno.js").read_bytes(), guest_source().encode()
