"""A guest in this process: a machine whose steps are computed on the loop, or in threads."""

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
"""Seconds more that a script may compute on the loop for each answer of its host: one that asks and
asks computes little at a time, and a thread for each step would cost more than the step."""


class WasmHost(Struct, frozen=True, kw_only=True):
    """Where scripts run in this process."""

    engine: Engine
    image: MachineImage
    pool: Pool
    turn: LoopTurn
    inline_seconds: float
    """What a script may compute on the loop by itself, in slices; then it goes on in threads."""


class WasmGuest:
    """Computes the steps of one machine.

    Short steps are computed on the loop. One that is long is stopped there, and computed again in a
    thread from the beginning, which is the same: the clock, chance and the order of answers repeat.
    """

    def __init__(self, host: WasmHost, request: EntryRequest) -> None:
        self._host = host
        self._request = request
        self._timer = request.timer
        self._machine: Machine | None = None
        self._world = world_of(request)
        self._delivered: list[Delivery] = []
        """To bring another machine to where this one is."""
        self._is_inline = host.inline_seconds > 0
        self._computed = 0.0

    async def advance(self, deliveries: Sequence[Delivery], held: int) -> Sequence[Delivery]:
        """Hand these over until the script asks for something; returns those that have to wait."""
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
            return await self._host.pool.compute(lambda: self._again(deliveries, held), self._timer)
        self._delivered.clear()
        return await self._host.pool.compute(lambda: self._step(deliveries, held), self._timer)

    def take(self) -> list[Message]:
        """Return what the script has said since the last time."""
        said, self._world.said = self._world.said, []
        return said

    async def rejections(self) -> list[str]:
        """Return a line for each rejection that nobody took."""
        machine = self._machine
        if machine is None or not machine.unhandled:
            return []
        self._timer.begin(is_sliced=True)
        try:
            with self._computing():
                machine.tell_rejections()
        except (TimeoutError, RuntimeError, PenstockError):
            return []  # the script's own error says more
        finally:
            self._timer.end()
        return [message.value for message in self.take() if message.kind == "rejected"]

    def stop(self, reason: str) -> None:
        """End what it computes, at the next epoch."""
        self._timer.ended = self._timer.ended or reason

    def free(self) -> None:
        """Free everything."""
        if self._machine is not None:
            self._machine.close()
            self._machine = None

    def _step(self, deliveries: Sequence[Delivery], held: int) -> Sequence[Delivery]:
        """Hand over one after the other, until the script asks for something or had its turn."""
        begin_step(self._world, self._request.bounds, held)
        self._timer.begin(is_sliced=self._is_inline, crowd=self._host.pool.busy)
        try:
            for at, delivery in enumerate(deliveries, 1):
                self._hand_over(delivery)
                if self._is_inline:
                    self._delivered.append(delivery)
                if self._is_heard or self._timer.has_had_its_turn:
                    return deliveries[at:]
        finally:
            self._computed += self._timer.end()
            most = self._host.inline_seconds + _MOMENT * len(self._delivered)
            self._is_inline = self._is_inline and self._computed < most
        return ()

    @property
    def _is_heard(self) -> bool:
        """Whether the script has said something that is to be done before it goes on."""
        return self._world.is_over or any(said.kind == "ask" for said in self._world.said)

    def _again(self, deliveries: Sequence[Delivery], held: int) -> Sequence[Delivery]:
        """Bring another machine to where the stopped one was, and go on in it."""
        self.free()
        before = self._world
        self._world = world_of(self._request)
        self._world.is_muted = True
        self._timer.begin(is_sliced=False)
        try:
            for delivery in self._delivered:
                self._hand_over(delivery)
        finally:
            self._timer.end()
        self._delivered.clear()
        self._world.is_muted, self._world.messages = False, before.messages - len(before.said)
        return self._step(deliveries, held)

    def _hand_over(self, delivery: Delivery) -> None:
        self._world.now_ms = delivery.at_ms
        text, attachments = delivery.to_wire()
        with self._computing():
            self._opened().send(text, attachments)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Let epochs come: without them nothing stops a script."""
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
