"""The engine `deno`: V8 in a Deno process without permissions, and the debugger for scripts.

`open_deno` returns a Sandbox with one confined process for each entry. `DebugSandbox` runs each
script in a Deno process that waits until DevTools have attached.
"""

import asyncio
import importlib.metadata
import importlib.util
import os
import re
import socket
import sys
import sysconfig
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from penstock.core.call_errors import ToolNotConfigured
from penstock.core.clock import Clock
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.sandbox.blobs import open_cache
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.entry import Entry
from penstock.sandbox.entry_timer import EntryTimer
from penstock.sandbox.guest import EntryRequest
from penstock.sandbox.guest_sources import SDK, guest_source
from penstock.sandbox.processes.process import LOOKED_AT, SYSTEM, Command, Process
from penstock.sandbox.processes.process_guest import ProcessGuest
from penstock.sandbox.processes.process_sandbox import ProcessSandbox
from penstock.sandbox.processes.process_slots import ProcessSlots
from penstock.sandbox.script import DENO, Bounds, Script

RUNNER = SDK / "runner.mjs"
SUPPORTED = "2.9."
"""The prefix of supported versions: flags and `vm` must be tested again with each new one."""
FLAGS = (
    *("--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock"),
    "--cached-only",
)
_CODE_MB = 560
"""Memory that V8 reserves: it does not start with less."""
_HEAP_MB = 32
"""Heap of V8 and the guest sources, in addition to the script's memory."""
PATIENCE = 3600.0
"""Seconds that a debugging session may take. The script's own time limits do not apply."""
_LISTENING = re.compile(rb"ws://(\S+)")
_THREADS = 4
_PORTS = 20
"""Number of ports to try: scripts that run at the same time need one each."""


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
        version = importlib.metadata.version("deno")
    except importlib.metadata.PackageNotFoundError:
        return "the engine deno is not installed: pip install 'penstock[deno]'"
    if not version.startswith(SUPPORTED):
        needs = f"the engine deno needs deno {SUPPORTED}*"
        return f"{needs}, found {version}: pip install 'penstock[deno]'"
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


def free_port(port: int) -> int:
    """Return this port or the next free one; 0 if none of the next 20 is free."""
    for candidate in range(port, port + _PORTS if port else port):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", candidate))
            except (OSError, OverflowError):
                continue
            return candidate
    return 0


class DebugSandbox:
    """Runs scripts in the main realm of a Deno process, where DevTools see them.

    Deno still grants no permission, but the operating system does not confine the process, and the
    script shares its realm with the guest sources. Use it for your own scripts only.
    """

    def __init__(
        self, clock: Clock, cache: Path, show_address: Callable[[str], None], *, port: int = 0
    ) -> None:
        self._clock = clock
        self._folder = folder_of(cache)
        self._show_address = show_address
        """Receives the address for the debugger, `HOST:PORT/ID`."""
        self._port = port
        """The first port to try; 0 for any."""
        self._threads = ThreadPoolExecutor(_THREADS)
        self._running: set[Process] = set()

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        """Run the script as soon as a debugger has attached; return its output."""
        patient = replace(bounds, seconds=PATIENCE, cpu_ms=int(PATIENCE * 1000))
        timer = EntryTimer(self._clock, PATIENCE, patient.cpu_ms)
        request = EntryRequest(script=script, bridge=bridge, bounds=patient, timer=timer)
        return await Entry(request, ProcessGuest(request, self._attached)).run(input)

    def engine_for(self, requested: str | None) -> str:
        """Return `deno` for any request: this sandbox has one engine."""
        return DENO

    async def close(self) -> None:
        """Kill all processes."""
        for process in self._running:
            process.kill()
        self._threads.shutdown()

    async def _attached(self, _memory_mb: int, _task: str, **_: bool) -> Process:
        """Return a process with a debugger. It takes no slot: it may live for an hour."""
        address = f"127.0.0.1:{free_port(self._port)}"
        process = Process(command(self._folder, 512, inspect=address), self._threads)
        self._running.add(process)
        try:
            self._show_address(await self._address(process))
            send_world(process)
            await process.flush()
            await process.read()
        except BaseException:
            process.close()
            raise
        return process

    async def _address(self, process: Process) -> str:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(self._threads, process.line):
            if match := _LISTENING.search(line):
                return match[1].decode()
        raise ConfigError(f"deno did not start its inspector: {await process.last_words()}")
