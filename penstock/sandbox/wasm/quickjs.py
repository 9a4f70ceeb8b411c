"""The in-process Sandbox: QuickJS in wasm, one machine for each entry.

Guarantees that one step of a script holds up the event loop for at most a slice (30 ms), while
short steps do not pay for a thread; that `close` returns only when no entry runs; and that a failed
start of the engine is tried again by the next script. The engine is shared; each entry gets its own
machine, whose memory starts as a copy of one image.

A script starts on the loop (`WasmGuest`). A step that takes longer than the slice is stopped there;
its machine is dropped, and a new one in a thread repeats all deliveries so far. From then on the
script stays in threads, also once its steps on the loop took `inline_seconds` in total. Repeating
is safe because a script is deterministic: its clock, its randomness and the order of its answers
are those of the deliveries, and the messages that it sends again are muted. A source of
nondeterminism in the guest would break this. Fifty scripts that start together would hold up the
loop for fifty slices in a row: `LoopTurn` lets the loop run everything else between two of them.
Proof: tests/sandbox/wasm/test_quickjs.py, and the contract of all sandboxes in
tests/contracts/test_sandbox.py.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from penstock.core.call_errors import Cancelled
from penstock.core.clock import Clock
from penstock.core.envelope import Json
from penstock.core.errors import PenstockError
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.entry import Entry
from penstock.sandbox.entry_timer import IS_LONG, EntryTimer
from penstock.sandbox.guest import MIB, EntryRequest, begin_step, world_of
from penstock.sandbox.messages import Delivery, Message
from penstock.sandbox.script import WASM, Bounds, Script
from penstock.sandbox.wasm.binding import Engine
from penstock.sandbox.wasm.machine import Machine, MachineImage, boot
from penstock.sandbox.wasm.native_engine import LINGER
from penstock.sandbox.wasm.pool import Pool
from penstock.sandbox.wasm.wasi import start_engine

_MOMENT = 0.00025
"""Additional seconds on the loop per answer of the host: a script with many host calls computes
little at a time, and a thread for each step would cost more than the step."""


class LoopTurn:
    """Held from the end of a long step until the loop has completed one iteration."""

    def __init__(self) -> None:
        self._passed: asyncio.Future[None] | None = None
        """Done when the loop has completed an iteration since the last long step."""

    @property
    def is_held(self) -> bool:
        """Whether `come` may have to wait. Cheaper than awaiting `come` for nothing."""
        return self._passed is not None

    async def come(self) -> None:
        """Wait until the loop has completed an iteration since the last long step."""
        loop = asyncio.get_running_loop()
        # Several waiters wake together; the first may hold the turn again, hence the loop. A
        # future of another event loop (one that ended) never completes, so it is ignored.
        while self._passed is not None and self._passed.get_loop() is loop:
            await asyncio.wait([self._passed])

    def hold(self) -> None:
        """Record that a long step has just ended."""
        loop = asyncio.get_running_loop()
        self._passed = loop.create_future()
        loop.call_soon(self._pass_on, self._passed)

    def _pass_on(self, passed: "asyncio.Future[None]") -> None:
        if self._passed is passed:
            self._passed = None
        if not passed.done():
            passed.set_result(None)


class WasmHost(Struct, frozen=True, kw_only=True):
    """Parts that the guests of this process share."""

    engine: Engine
    image: MachineImage
    pool: Pool
    turn: LoopTurn
    inline_seconds: float
    """Seconds that a script may compute on the event loop in total; after that it runs in threads.
    """


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

    def engine_for(self, requested: str | None) -> str:
        """Return `wasm` for any request: this sandbox has one engine."""
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


class WasmGuest:
    """Computes the steps of one machine."""

    def __init__(self, host: WasmHost, request: EntryRequest) -> None:
        self._host = host
        self._request = request
        self._timer = request.timer
        self._machine: Machine | None = None
        self._world = world_of(request)
        self._delivered: list[Delivery] = []
        """All deliveries so far, to repeat in another machine."""
        self._is_inline = host.inline_seconds > 0
        self._computed = 0.0

    async def advance(self, deliveries: Sequence[Delivery], held: int) -> Sequence[Delivery]:
        """Deliver until the script makes a host call; return the deliveries that are left."""
        if self._is_inline:
            if self._host.turn.is_held:
                await self._host.turn.come()
            try:
                return self._step(deliveries, held)
            except TimeoutError as stopped:
                if str(stopped) != IS_LONG:
                    raise
            self._host.turn.hold()
            self._is_inline = False
            return await self._host.pool.compute(
                lambda: self._replay(deliveries, held), self._timer
            )
        self._delivered.clear()  # in a thread no step is stopped for its length
        return await self._host.pool.compute(lambda: self._step(deliveries, held), self._timer)

    def take(self) -> list[Message]:
        """Return the messages of the script since the last call."""
        messages, self._world.outbox = self._world.outbox, []
        return messages

    async def rejections(self) -> list[str]:
        """Return a line for each unhandled rejection."""
        machine = self._machine
        if machine is None or not machine.unhandled:
            return []
        self._timer.begin(is_sliced=True)
        try:
            with self._computing():
                machine.post_rejections()
        except (TimeoutError, RuntimeError, PenstockError):
            return []  # the script's own error says more
        finally:
            self._timer.end()
        return [message.value for message in self.take() if message.kind == "rejected"]

    def stop(self, reason: str) -> None:
        """Stop the script at the next epoch."""
        self._timer.ended = self._timer.ended or reason

    def free(self) -> None:
        """Free everything."""
        if self._machine is not None:
            self._machine.close()
            self._machine = None

    def _step(self, deliveries: Sequence[Delivery], held: int) -> Sequence[Delivery]:
        """Deliver one by one, until the script makes a host call or has used its turn."""
        begin_step(self._world, self._request.bounds, held)
        self._timer.begin(is_sliced=self._is_inline, crowd=self._host.pool.busy)
        try:
            for count, delivery in enumerate(deliveries, 1):
                self._deliver(delivery)
                if self._is_inline:
                    self._delivered.append(delivery)
                # A host call must be made before the next delivery: its recorded result may
                # come before the rest.
                if self._waits_for_host or self._timer.has_had_its_turn:
                    return deliveries[count:]
        finally:
            self._computed += self._timer.end()
            most = self._host.inline_seconds + _MOMENT * len(self._delivered)
            self._is_inline = self._is_inline and self._computed < most
        return ()

    @property
    def _waits_for_host(self) -> bool:
        return self._world.is_over or any(message.kind == "ask" for message in self._world.outbox)

    def _replay(self, deliveries: Sequence[Delivery], held: int) -> Sequence[Delivery]:
        """Bring a new machine to the state before the stopped step, and continue in it."""
        self.free()
        before = self._world
        self._world = world_of(self._request)
        self._world.is_muted = True
        self._timer.begin(is_sliced=False)
        try:
            for delivery in self._delivered:
                self._deliver(delivery)
        finally:
            self._timer.end()
        self._delivered.clear()
        # The messages of the stopped step were not taken: the step sends and counts them again.
        self._world.is_muted, self._world.messages = False, before.messages - len(before.outbox)
        return self._step(deliveries, held)

    def _deliver(self, delivery: Delivery) -> None:
        self._world.now_ms = delivery.at_ms
        text, attachments = delivery.to_wire()
        with self._computing():
            self._opened().send(text, attachments)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Keep the ticker running: without epochs nothing stops a script."""
        ticker = self._host.engine.ticker
        ticker.begin(self)
        try:
            yield
        finally:
            ticker.end(self)

    def _opened(self) -> Machine:
        if self._machine is None:
            bounds, host = self._request.bounds, self._host
            memory, stack = bounds.memory_mb * MIB, bounds.stack_kb * 1024
            self._machine = machine = Machine(host.engine, host.image, memory, stack)
            machine.instance.alarm = self._timer.alarm
            machine.enter(self._world, self._request.script.entry)
        return self._machine
