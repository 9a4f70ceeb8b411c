"""Processes that are begun before a script needs them: one entry each, and the next is begun."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from penstock.core.errors import ConfigError
from penstock.sandbox.process import Command, Process

_REAPERS = 4
Begin = Callable[[Process], None]
"""Sends what every script of the engine needs."""


class Spares:
    """Keeps one process ready for each size of memory that was asked for."""

    def __init__(self, command: Callable[[int], Command], begin: Begin) -> None:
        self._command = command
        self._begin = begin
        self._spare: dict[int, deque[Process]] = {}
        self._is_closed = False
        self._reaper = ThreadPoolExecutor(_REAPERS, thread_name_prefix="reaper")

    def prepare(self, memory_mb: int) -> None:
        """Begin a process, unless one is ready."""
        if self._is_closed:
            return
        spare = self._spare.setdefault(memory_mb, deque())
        if not spare:
            spare.append(self._begun(memory_mb))

    async def take(self, memory_mb: int) -> Process:
        """Return a process that is ready, and begin the next."""
        spare = self._spare.setdefault(memory_mb, deque())
        process = spare.popleft() if spare else self._begun(memory_mb)
        try:
            if not process.is_alive:
                process.close()
                process = self._begun(memory_mb)
            await self._ready(process)
        except BaseException:
            process.close()
            raise
        asyncio.get_running_loop().call_soon(self.prepare, memory_mb)
        return process

    def close(self) -> None:
        """End those that nobody took, and wait until all are reaped."""
        self._is_closed = True
        for spare in self._spare.values():
            for process in spare:
                process.close()
            spare.clear()
        self._reaper.shutdown()

    def _begun(self, memory_mb: int) -> Process:
        process = Process(self._command(memory_mb), self._reaper)
        self._begin(process)
        return process

    async def _ready(self, process: Process) -> None:
        """Wait until it has taken what it was sent."""
        try:
            await process.flush()
            kind, _ = await process.read()
        except (EOFError, OSError):
            code, _, said = (await process.last_words()).partition("\n")
            raise ConfigError(
                f"a process for scripts did not start; it ended with {code}: {said.strip()[-500:]}"
            ) from None
        if kind != "ready":
            raise ConfigError(f"a process for scripts began with {kind!r}: reinstall penstock")
