"""The Sandbox that runs each script in a process of its own; a process serves one script only.

Processes are started before scripts need them (`WarmProcesses`). Guarantees that spare and working
processes together never exceed the slots: a spare takes no slot, but spares are started only while
slots are free, and one of another size is ended if a script needs its room. Proof:
tests/sandbox/processes/test_process_sandbox.py.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from penstock.core.call_errors import Cancelled
from penstock.core.clock import Clock
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError, OutOfResources
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.entry import Entry
from penstock.sandbox.entry_timer import EntryTimer
from penstock.sandbox.guest import EntryRequest
from penstock.sandbox.processes.process import Command, Process
from penstock.sandbox.processes.process_guest import ProcessGuest
from penstock.sandbox.processes.process_slots import ProcessSlots
from penstock.sandbox.script import Bounds, Script

_REAPERS = 4
Begin = Callable[[Process], None]
"""Sends the frames that every process of the engine needs first."""


class ProcessSandbox:
    """Runs each script in a process that was started in advance and is killed afterwards."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        command: Callable[[int], Command],
        begin: Begin,
        *,
        slots: ProcessSlots | None = None,
    ) -> None:
        """Configure an engine called `name`. `slots` may be shared with other engines."""
        self._name = name
        self._clock = clock
        self._processes = WarmProcesses(command, begin, slots or ProcessSlots())
        self._entries: set[Entry] = set()
        self._left = asyncio.Event()
        self._is_closed = False

    async def warm(self, memory_mb: int, count: int = 1) -> None:
        """Keep `count` processes ready, from now on."""
        await self._processes.warm(memory_mb, count)

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        """Run the script from its first line; return its output, which is JSON."""
        if self._is_closed:
            raise Cancelled("the sandbox is closed")
        timer = EntryTimer(self._clock, bounds.seconds, bounds.cpu_ms, spent_ms=bounds.spent_ms)
        request = EntryRequest(script=script, bridge=bridge, bounds=bounds, timer=timer)
        entry = Entry(request, ProcessGuest(request, self._processes.take))
        self._entries.add(entry)
        try:
            return await entry.run(input)
        finally:
            self._entries.discard(entry)
            self._left.set()

    def engine_for(self, requested: str | None) -> str:
        """Return the name of its one engine, for any request."""
        return self._name

    async def close(self) -> None:
        """Stop all entries, wait until they have ended, and end the spare processes."""
        self._is_closed = True
        self._processes.slots.close()
        for entry in self._entries:
            entry.stop()
        while self._entries:
            self._left.clear()
            await self._left.wait()
        self._processes.close()


class WarmProcesses:
    """Keeps a process ready for each size of memory that was requested."""

    def __init__(
        self, command: Callable[[int], Command], begin: Begin, slots: ProcessSlots | None = None
    ) -> None:
        self._command = command
        self._begin = begin
        self.slots = slots or ProcessSlots()
        self._spare: dict[int, deque[Process]] = {}
        self._counts: dict[int, int] = {}
        self._is_closed = False
        self._reaper = ThreadPoolExecutor(_REAPERS, thread_name_prefix="reaper")

    async def warm(self, memory_mb: int, count: int = 1) -> None:
        """Keep `count` processes of this size ready, and wait until they are."""
        self._counts[memory_mb] = count
        self._refill(memory_mb)
        for process in list(self._spare[memory_mb]):
            await self._await_ready(process)

    async def take(self, memory_mb: int, task: str = "", *, again: bool = False) -> Process:
        """Wait for a slot; return a ready process, and start the next one."""
        slot = await self.slots.acquire(task, again=again)
        process = None
        try:
            process = await self._taken(memory_mb)
            process.slot = slot
            await self._await_ready(process)
        except BaseException:
            if process is None:
                slot.release()
            else:
                process.close()
            raise
        asyncio.get_running_loop().call_soon(self._refill_if_possible, memory_mb)
        return process

    def close(self) -> None:
        """End the spare processes and wait until all are reaped."""
        self._is_closed = True
        for spare in self._spare.values():
            for process in spare:
                process.close()
            spare.clear()
        self._reaper.shutdown()

    async def _taken(self, memory_mb: int) -> Process:
        """Return a living spare or a new process; end a spare of another size if room is needed."""
        spare = self._spare.setdefault(memory_mb, deque())
        while spare:
            process = spare.popleft()
            if process.is_alive:
                return process
            process.close()
        if self._room <= 0 and (others := [each for each in self._spare.values() if each]):
            ended = max(others, key=len).pop()
            ended.close()
            await ended.reaped()
        return self._started(memory_mb)

    @property
    def _room(self) -> int:
        return self.slots.free - sum(map(len, self._spare.values()))

    def _refill(self, memory_mb: int) -> None:
        spare = self._spare.setdefault(memory_mb, deque())
        count = self._counts.get(memory_mb, 1)
        while not self._is_closed and len(spare) < count and self._room > 0:
            spare.append(self._started(memory_mb))

    def _refill_if_possible(self, memory_mb: int) -> None:
        with suppress(OutOfResources):  # the next script starts its own, or fails with a reason
            self._refill(memory_mb)

    def _started(self, memory_mb: int) -> Process:
        process = Process(self._command(memory_mb), self._reaper)
        self._begin(process)
        return process

    async def _await_ready(self, process: Process) -> None:
        """Wait until the process has reported that it is ready."""
        if process.is_ready:
            return
        try:
            await process.flush()
            kind, _ = await process.read()
        except (EOFError, OSError):
            code, _, stderr = (await process.last_words()).partition("\n")
            raise ConfigError(
                "a process for scripts did not start; "
                f"it ended with {code}: {stderr.strip()[-500:]}"
            ) from None
        except ValueError as error:
            raise ConfigError(f"a process for scripts is not an engine: {error}") from None
        if kind != "ready":
            raise ConfigError(f"a process for scripts began with {kind!r}: reinstall penstock")
        process.is_ready = True
