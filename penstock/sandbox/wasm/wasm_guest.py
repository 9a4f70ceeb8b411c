"""A guest in this process: a machine whose steps run on the event loop, then in threads.

Guarantees that one step of a script holds up the loop for at most a slice (30 ms), while short
steps do not pay for a thread.

A script starts on the loop. A step that takes longer than the slice is stopped there; its machine
is dropped, and a new one in a thread repeats all deliveries so far. From then on the script stays
in threads, also once its steps on the loop took `inline_seconds` in total. Repeating is safe
because a script is deterministic: its clock, its randomness and the order of its answers are those
of the deliveries, and the messages that it sends again are muted. A source of nondeterminism in the
guest would break this. Proof: tests/sandbox/wasm/test_wasm_guest.py.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from penstock.core.errors import PenstockError
from penstock.sandbox.entry_timer import IS_LONG
from penstock.sandbox.guest import MIB, EntryRequest, begin_step, world_of
from penstock.sandbox.messages import Delivery, Message
from penstock.sandbox.wasm.binding import Engine
from penstock.sandbox.wasm.loop_turn import LoopTurn
from penstock.sandbox.wasm.machine import Machine, MachineImage
from penstock.sandbox.wasm.pool import Pool

_MOMENT = 0.00025
"""Additional seconds on the loop per answer of the host: a script with many host calls computes
little at a time, and a thread for each step would cost more than the step."""


class WasmHost(Struct, frozen=True, kw_only=True):
    """What the guests of this process share."""

    engine: Engine
    image: MachineImage
    pool: Pool
    turn: LoopTurn
    inline_seconds: float
    """Seconds that a script may compute on the event loop in total; after that it runs in threads.
    """


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
        return self._world.is_over or any(said.kind == "ask" for said in self._world.outbox)

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
