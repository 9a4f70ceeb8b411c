"""Runs scripts under a debugger: each waits in a Deno process until DevTools have attached."""

import asyncio
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from penstock.core.clock import Clock
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.entry import Entry
from penstock.sandbox.entry_timer import EntryTimer
from penstock.sandbox.guest import EntryRequest
from penstock.sandbox.processes.deno import command, folder_of, send_world
from penstock.sandbox.processes.process import Process
from penstock.sandbox.processes.process_guest import ProcessGuest
from penstock.sandbox.script import DENO, Bounds, Script

PATIENCE = 3600.0
"""Seconds that a debugging session may take. The script's own time limits do not apply."""
_LISTENING = re.compile(rb"ws://(\S+)")
_THREADS = 4
_PORTS = 20
"""Number of ports to try: scripts that run at the same time need one each."""


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

    def engine_for(self, wish: str | None) -> str:
        """Return `deno` for any wish: this sandbox has one engine."""
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
