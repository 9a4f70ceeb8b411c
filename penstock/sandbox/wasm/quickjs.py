"""The in-process Sandbox: QuickJS in wasm, one machine for each entry.

Guarantees that `close` returns only when no entry runs, and that a failed start of the engine is
tried again by the next script. The engine is shared; each entry gets its own machine, whose memory
starts as a copy of one image. Proof: tests/sandbox/wasm/test_quickjs.py, and the contract of all
sandboxes in tests/contracts/test_sandbox.py.
"""

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
    """Runs scripts in this process, each with its own memory.

    The first script waits for the engine: 0.1 s if its machine code is cached, 1 to 2 s if not.
    Time limits use `clock`, not the clock that the script sees.
    """

    def __init__(
        self,
        clock: Clock,
        cache: Path | None = None,
        *,
        inline_seconds: float = 0.25,
        linger: int = LINGER,
    ) -> None:
        """Configure the engine; it starts with the first script or with `warm`.

        `inline_seconds` is the time that a script may compute on the event loop. `linger` is the
        number of ticks without a script after which the ticker sleeps.
        """
        self._linger = linger
        self._clock = clock
        self._cache = cache
        self._inline_seconds = inline_seconds
        self._host: WasmHost | None = None
        self._starting: asyncio.Future[WasmHost] | None = None
        self._entries: set[Entry] = set()
        self._left: asyncio.Future[None] | None = None
        """Set while `close` waits for the next entry to end."""
        self._is_closed = False

    def warm(self) -> None:
        """Start the engine now. May be called in a thread."""
        self._opened()

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        """Run the script from its first line; return its output, which is JSON."""
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
        """Return `wasm` for any wish: this sandbox has one engine."""
        return WASM

    async def close(self) -> None:
        """Stop all entries and wait until they have ended."""
        self._is_closed = True
        # A start that is under way runs in a thread and cannot be cancelled.
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
        """Start the engine in a thread, once: compiling takes seconds and must not block the loop.

        The start is shielded: cancelling one script must not cancel it for the others.
        """
        starting = self._starting
        if starting is None or starting.done():  # done without a host: it failed, so try again
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
