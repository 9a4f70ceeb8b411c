"""The second engine: V8 in a `deno` process without permissions, one process for each entry."""

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
"""What its version begins with: its `vm` and its flags are tried anew with each."""
FLAGS = (
    *("--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock"),
    "--cached-only",
)
_CODE_MB = 560
"""What V8 reserves for itself: it does not start with less data."""
_HEAP_MB = 32
"""What V8 and our part of the world take of the heap, beyond the script's memory."""


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
    """Send what every script needs around it."""
    process.write("world", *_world())


def missing_deno() -> str:
    """Return why Deno cannot run scripts here, or nothing."""
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
    """Return the path of the program, or nothing."""
    name = "deno.exe" if os.name == "nt" else "deno"
    places = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    found = importlib.util.find_spec("deno")
    if found is not None and found.origin is not None:
        places.append(Path(found.origin).parents[4] / "bin")
    return next((str(place / name) for place in places if (place / name).is_file()), "")


def command(folder: Path, memory_mb: int, layers: Sequence[str] = (), inspect: str = "") -> Command:
    """Return how a process is started; `inspect` is where DevTools may attach, if they may."""
    v8 = (
        f"--max-old-space-size={memory_mb + _HEAP_MB}",
        "--disallow-code-generation-from-strings",
        "--enable-experimental-regexp-engine-on-excessive-backtracks",
    )
    # Quiet, it would not say where the inspector listens.
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
    """Return the folder of the engine, with what Deno would make in it on its first start."""
    folder = cache / f"deno-{importlib.metadata.version('deno')}"
    open_cache(folder)
    for name in ("empty", "dir"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    return folder


@lru_cache(maxsize=1)
def _world() -> tuple[bytes, bytes]:
    return (SDK / "world_deno.js").read_bytes(), guest_source().encode()
