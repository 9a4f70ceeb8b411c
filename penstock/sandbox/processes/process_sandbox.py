"""The Sandbox that runs each script in a process of its own; a process serves one script only."""

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.core.call_errors import Cancelled
from penstock.core.clock import Clock
from penstock.core.envelope import Json
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.entry import Entry
from penstock.sandbox.entry_timer import EntryTimer
from penstock.sandbox.guest import EntryRequest
from penstock.sandbox.processes.process import Command
from penstock.sandbox.processes.process_guest import ProcessGuest
from penstock.sandbox.processes.slots import ProcessSlots
from penstock.sandbox.processes.warm_processes import Begin, WarmProcesses
from penstock.sandbox.script import Bounds, Script


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

    def engine_for(self, wish: str | None) -> str:
        """Return the name of its one engine, for any wish."""
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
