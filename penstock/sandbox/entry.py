"""One entry of a script: from its first line until it ends, parks, or is stopped."""

import asyncio
import json
from collections.abc import Awaitable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.core.call_errors import ScriptError
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.calls import Calls
from penstock.sandbox.chance import Chance
from penstock.sandbox.endings import conclude, crashed
from penstock.sandbox.machine import Image, Machine
from penstock.sandbox.messages import Delivery, Message
from penstock.sandbox.pool import Pool
from penstock.sandbox.script import Bounds, Script
from penstock.sandbox.surroundings import Surroundings
from penstock.sandbox.wasm import Engine
from penstock.sandbox.watch import IS_LONG, SLICE, Watch

NOTHING_SETTLES = "the script waits for a promise that nothing will settle"
_MIB = 1 << 20
_MESSAGES_PER_CALL = 2
"""It is asked, and it is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where scripts run."""

    engine: Engine
    image: Image
    pool: Pool
    clock: Clock
    inline_seconds: float
    """What a script may compute on the loop in all, in slices; then it goes on in threads."""


class Entry:
    """Drives one machine: hands it what has settled, asks what it asks.

    Short steps are computed on the loop. One that is long is stopped there, and computed again in a
    thread from the beginning, which is the same: the clock, chance and the order of answers repeat.
    """

    def __init__(self, site: Site, script: Script, bridge: Bridge, bounds: Bounds) -> None:
        self._site = site
        self._script = script
        self._bridge = bridge
        self._bounds = bounds
        self._woken = asyncio.Event()
        self._calls = Calls(bridge, self._woken.set)
        self._watch = Watch(site.clock, bounds.seconds, bounds.cpu_ms)
        self._machine: Machine | None = None
        self._around = self._surroundings()
        self._delivered: list[Delivery] = []
        """To bring another machine to where this one is."""
        self._is_inline = site.inline_seconds > 0
        self._computed = 0.0
        self._since_yield = 0.0
        self._console = Console(bridge, bounds)

    async def run(self, input: Any) -> Any:
        """Return the output."""
        deliveries: Sequence[Delivery] = [self._beginning(input)]
        try:
            while True:
                self._calls.put_back(await self._advance(deliveries))
                if ending := self._take():
                    return await self._end(ending)
                deliveries = await self._next()
        finally:
            self._take_prints()
            self._free()
            await self._calls.close()

    def stop(self) -> None:
        """End the entry from outside."""
        self._watch.ended = self._watch.ended or "closed"
        self._woken.set()

    # ---- computing

    async def _advance(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Compute what follows from these; returns those that have to wait."""
        try:
            return await self._computed_step(deliveries)
        except TimeoutError as stopped:
            raise self._watch.error(str(stopped)) from None
        except RuntimeError as trap:
            raise crashed(str(trap)) from None

    async def _computed_step(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        if self._is_inline:
            await self._let_others()
            try:
                return self._step(deliveries)
            except TimeoutError as stopped:
                if str(stopped) != IS_LONG:
                    raise
            self._is_inline = False
            return await self._site.pool.compute(lambda: self._again(deliveries), self._watch)
        self._delivered.clear()
        return await self._site.pool.compute(lambda: self._step(deliveries), self._watch)

    def _step(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Hand over one after the other, until the script asks for something."""
        self._around.held, self._around.most_held = (
            0,
            self._bounds.memory_mb * _MIB - self._calls.held,
        )
        self._watch.begin(is_sliced=self._is_inline)
        try:
            for at, delivery in enumerate(deliveries, 1):
                self._hand_over(delivery)
                if self._is_inline:
                    self._delivered.append(delivery)
                if self._around.is_over or any(said.kind == "ask" for said in self._around.said):
                    return deliveries[at:]
        finally:
            took = self._watch.end()
            self._computed += took
            self._since_yield += took
            self._is_inline = self._is_inline and self._computed < self._site.inline_seconds
        return ()

    def _again(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Bring another machine to where the stopped one was, and go on in it."""
        self._free()
        before = self._around
        self._around = self._surroundings()
        self._around.is_muted = True
        self._watch.begin(is_sliced=False)
        try:
            for delivery in self._delivered:
                self._hand_over(delivery)
        finally:
            self._watch.end()
        self._delivered.clear()
        self._around.is_muted, self._around.messages = False, before.messages - len(before.said)
        return self._step(deliveries)

    def _hand_over(self, delivery: Delivery) -> None:
        self._around.now_ms = delivery.at_ms
        text, attachments = delivery.to_wire()
        ticker = self._site.engine.ticker
        ticker.begin(self)
        try:
            self._opened().send(text, attachments)
        finally:
            ticker.end(self)

    def _opened(self) -> Machine:
        if self._machine is None:
            bounds, site = self._bounds, self._site
            memory, stack = bounds.memory_mb * _MIB, bounds.stack_kb * 1024
            self._machine = machine = Machine(site.engine, site.image, memory, stack)
            machine.instance.alarm = self._watch.alarm
            machine.enter(self._around, self._script.entry)
        return self._machine

    def _free(self) -> None:
        if self._machine is not None:
            self._machine.close()
            self._machine = None

    def _surroundings(self) -> Surroundings:
        bounds = self._bounds
        return Surroundings(
            modules=self._script.modules,
            answer=self._answer,
            chance=Chance(self._bridge.seed).take,
            depth=bounds.json_depth,
            most_messages=_MESSAGES_PER_CALL * bounds.host_calls + bounds.log_lines + 2,
            most_held=0,
            now_ms=self._bridge.begins_ms,
        )

    def _answer(self, name: str, arguments: Any) -> str:
        settled = self._bridge.answer(name, arguments)
        if settled.refusal is None:
            return json.dumps({"value": settled.value})
        refusal = {"name": settled.refusal.name} | settled.refusal.detail.to_wire()
        return json.dumps({"refusal": refusal})

    def _beginning(self, input: Any) -> Delivery:
        bounds = {_camel(name): value for name, value in asdict(self._bounds).items()}
        value = {
            "entry": self._script.entry,
            "entrypoint": self._script.entrypoint,
            "input": input,
            "bounds": bounds,
            "chance": Chance(self._bridge.seed).words(),
            "now": self._bridge.begins_ms,
        }
        return Delivery(kind="run", number=0, value=value, at_ms=self._bridge.begins_ms)

    # ---- between the steps

    def _take(self) -> Message | None:
        """Do what the script said; returns how it ended, if it has."""
        said, self._around.said = self._around.said, []
        for message in said:
            match message.kind:
                case "ask":
                    self._calls.ask(message)
                case "drop":
                    self._calls.drop(message.number)
                case "print":
                    self._console.print(message.name, message.value)
                case _:
                    return message
        return None

    def _take_prints(self) -> None:
        """Say what was said before the script was stopped."""
        for message in self._around.said:
            if message.kind == "print":
                self._console.print(message.name, message.value)
        self._around.said.clear()

    async def _next(self) -> Sequence[Delivery]:
        """Return what is to be delivered, as soon as there is something."""
        while True:
            self._woken.clear()
            if self._watch.ended:
                raise self._watch.error(self._watch.ended)
            if ready := self._calls.take():
                return ready
            if not self._calls.can_move:
                if signal := self._calls.parking():
                    raise signal
                self._tell_rejections()
                raise ScriptError(NOTHING_SETTLES)
            await self._within_time(self._woken.wait())

    async def _end(self, ending: Message) -> Any:
        """Settle what is open, then return the output or raise the error."""
        self._tell_rejections()
        self._free()
        if names := self._calls.unawaited():
            said = ", ".join(sorted(set(names)))
            self._bridge.warn(
                "script.unawaited_calls",
                f"the script returned before {len(names)} of its host calls: {said}",
            )
            await self._within_time(self._calls.finish())
        return conclude(ending, self._script, self._bounds)

    def _tell_rejections(self) -> None:
        machine = self._machine
        if machine is None or not machine.unhandled:
            return
        self._watch.begin(is_sliced=True)
        try:
            machine.tell_rejections()
        except (TimeoutError, RuntimeError, PenstockError):
            return  # the script's own error says more
        finally:
            self._watch.end()
        for message in self._around.said:
            if message.kind == "rejected":
                self._bridge.warn("script.unhandled_rejection", message.value)
        self._around.said.clear()

    async def _within_time(self, waiting: Awaitable[Any]) -> None:
        limit = asyncio.timeout(max(self._watch.left, 0))
        try:
            async with limit:
                await waiting
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._watch.error("timeout") from None

    async def _let_others(self) -> None:
        """Give the loop to others when enough of it was used."""
        if self._since_yield > SLICE / 2:
            self._since_yield = 0.0
            passed = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(passed.set_result, None)
            await passed


class Console:
    """Hands lines to the bridge; the script's own caps are not trusted."""

    def __init__(self, bridge: Bridge, bounds: Bounds) -> None:
        self._bridge = bridge
        self._lines_left = bounds.log_lines + 1
        self._bytes_left = bounds.log_bytes + bounds.log_line_bytes
        self._longest = bounds.log_line_bytes

    def print(self, level: str, text: str) -> None:
        """Hand over one line."""
        line = text.encode("utf-8", "replace")[: self._longest].decode("utf-8", "ignore")
        self._lines_left -= 1
        self._bytes_left -= len(line)
        if self._lines_left >= 0 and self._bytes_left >= 0:
            self._bridge.print(level if level in _LEVELS else "info", line)


_LEVELS = {"info", "warning", "error"}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
