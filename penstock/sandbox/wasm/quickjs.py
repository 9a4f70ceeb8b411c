"""The Sandbox of this process: QuickJS in wasm, one machine for each entry."""

import asyncio
from pathlib import Path
from typing import Any

from penstock.core.call_errors import Cancelled
from penstock.core.clock import Clock
from penstock.core.envelope import Json
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.entry import Entry
from penstock.sandbox.entry_timer import EntryTimer
from penstock.sandbox.guest import EntryRequest
from penstock.sandbox.script import WASM, Bounds, Script
from penstock.sandbox.wasm.loop_turn import LoopTurn
from penstock.sandbox.wasm.machine import boot
from penstock.sandbox.wasm.pool import Pool
from penstock.sandbox.wasm.ticker import LINGER
from penstock.sandbox.wasm.wasi import start_engine
from penstock.sandbox.wasm.wasm_guest import WasmGuest, WasmHost


class QuickJs:
    """Runs scripts in this process, each in a memory of its own.

    The first script pays for the engine: 0.1 s if its machine code is in the cache, 1 to 2 s if
    not. The clock is that of the machine, whatever the clock of the script says.
    """

    def __init__(
        self,
        clock: Clock,
        cache: Path | None = None,
        *,
        inline_seconds: float = 0.25,
        linger: int = LINGER,
    ) -> None:
        """`linger` is how many ticks without a script pass until the ticker waits to be woken."""
        self._linger = linger
        self._clock = clock
        self._cache = cache
        self._inline_seconds = inline_seconds
        self._host: WasmHost | None = None
        self._starting: asyncio.Future[WasmHost] | None = None
        self._entries: set[Entry] = set()
        self._left: asyncio.Future[None] | None = None
        """Waits, while this closes, for the next entry to end."""
        self._is_closed = False

    def warm(self) -> None:
        """Do now what the first script would wait for; may be called in a thread."""
        self._opened()

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        """Enter the script from its top; returns its output, which is JSON."""
        if self._is_closed:
            raise Cancelled("the sandbox is closed")
        host = self._host or await self._started()
        timer = EntryTimer(self._clock, bounds.seconds, bounds.cpu_ms, spent_ms=bounds.spent_ms)
        request = EntryRequest(script=script, bridge=bridge, bounds=bounds, timer=timer)
        entry = Entry(request, WasmGuest(host, request))
        self._entries.add(entry)
        try:
            return await entry.run(input)
        finally:
            self._entries.discard(entry)
            if self._left is not None and not self._left.done():
                self._left.set_result(None)

    def engine_for(self, wish: str | None) -> str:
        """Return the one name: it runs whatever it is given."""
        return WASM

    async def close(self) -> None:
        """End whatever still runs."""
        self._is_closed = True
        if self._starting is not None and not self._starting.done():
            await asyncio.wait([self._starting])
        for entry in self._entries:
            entry.stop()
        while self._entries:
            self._left = asyncio.get_running_loop().create_future()
            await self._left
        if self._host is not None:
            self._host.pool.close()
            self._host.engine.close()

    async def _started(self) -> WasmHost:
        """Start the engine in a thread, once: everybody else goes on while it is compiled."""
        starting = self._starting
        if starting is None or starting.done():  # it may have failed; then it is tried again
            starting = asyncio.ensure_future(asyncio.to_thread(self._opened))
            self._starting = starting
        host = await asyncio.shield(starting)
        if self._is_closed:
            raise Cancelled("the sandbox is closed")
        return host

    def _opened(self) -> WasmHost:
        if self._host is None:
            engine = start_engine(self._clock, self._cache, linger=self._linger)
            self._host = WasmHost(
                engine=engine,
                image=boot(engine),
                pool=Pool(),
                turn=LoopTurn(),
                inline_seconds=self._inline_seconds,
            )
        return self._host
