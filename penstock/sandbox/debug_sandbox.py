"""Scripts under a debugger: each waits in a process of Deno until DevTools have attached."""

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
"""Seconds that a person may look at a script; none of its own limits of time hold."""
_LISTENING = re.compile(rb"ws://(\S+)")
_THREADS = 4
_PORTS = 20
"""So many are tried: scripts that run at once have one each."""


def free_port(port: int) -> int:
    """Return this port, or the next one that nobody listens at; 0 if there is none near."""
    for each in range(port, port + _PORTS if port else port):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", each))
            except (OSError, OverflowError):
                continue
            return each
    return 0


class DebugSandbox:
    """Runs scripts in the main realm of a process, where DevTools see them.

    There is still no permission, but no confinement and no realm apart: for scripts of one's own.
    """

    def __init__(
        self, clock: Clock, cache: Path, told: Callable[[str], None], *, port: int = 0
    ) -> None:
        self._clock = clock
        self._folder = folder_of(cache)
        self._told = told
        """Takes the address at which a debugger may attach, `HOST:PORT/ID`."""
        self._port = port
        """The first one that a debugger is to attach at; 0 is any."""
        self._threads = ThreadPoolExecutor(_THREADS)
        self._running: set[Process] = set()

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        """Enter the script as soon as somebody has attached; returns its output."""
        patient = replace(bounds, seconds=PATIENCE, cpu_ms=int(PATIENCE * 1000))
        timer = EntryTimer(self._clock, PATIENCE, patient.cpu_ms)
        request = EntryRequest(script=script, bridge=bridge, bounds=patient, timer=timer)
        return await Entry(request, ProcessGuest(request, self._attached)).run(input)

    def engine_for(self, wish: str | None) -> str:
        """Return the one name: it runs whatever it is given."""
        return DENO

    async def close(self) -> None:
        """End whatever still runs."""
        for process in self._running:
            process.kill()
        self._threads.shutdown()

    async def _attached(self, _memory_mb: int, _task: str, **_: bool) -> Process:
        """Return a process that somebody looks at; these are not counted."""
        at = f"127.0.0.1:{free_port(self._port)}"
        process = Process(command(self._folder, 512, inspect=at), self._threads)
        self._running.add(process)
        try:
            self._told(await self._address(process))
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
            if found := _LISTENING.search(line):
                return found[1].decode()
        raise ConfigError(f"deno did not start its inspector: {await process.last_words()}")
