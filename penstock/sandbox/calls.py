"""The host calls of one entry: asked, open, parked, and what is to be delivered next."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence

from penstock.core.call_errors import ScriptError
from penstock.core.signals import Signal, Suspend
from penstock.sandbox.bridge import Bridge, HostCallResult
from penstock.sandbox.eager_call import begin
from penstock.sandbox.messages import Delivery, Message

DROPPED_AT_THE_END = {"sleep", "timer"}
"""Calls that nobody needs when the script has returned."""


class OpenCalls:
    """Knows what the script waits for. Everything in it happens on the loop."""

    def __init__(self, bridge: Bridge, wake: Callable[[], None]) -> None:
        self._bridge = bridge
        self._wake = wake
        self._open: dict[int, asyncio.Future[HostCallResult]] = {}
        self._asked: dict[int, Message] = {}
        self._recorded: list[tuple[int, int, HostCallResult]] = []
        self._fresh: list[tuple[int, HostCallResult]] = []
        self._waiting: list[Delivery] = []
        self._parked: dict[int, Suspend] = {}
        self._failure: BaseException | None = None
        self.held = 0
        """Bytes of the arguments of calls that are not settled."""

    def ask(self, message: Message) -> None:
        """Begin a host call."""
        number = message.number
        if number in self._asked:
            raise ScriptError("the script asked its host twice under one number")
        self._asked[number] = message
        self.held += message.size
        try:
            found = self._ask(message)
            begun = found if isinstance(found, HostCallResult) else begin(found)
        except Suspend as signal:
            self._parked[number] = signal
            return
        if isinstance(begun, HostCallResult):
            self._settle(number, begun)
            return
        self._open[number] = begun
        begun.add_done_callback(lambda done: self._done(number, done))

    def drop(self, number: int) -> None:
        """Give up a call that the script does not want any more."""
        self._forget(number)
        self._parked.pop(number, None)
        if task := self._open.pop(number, None):
            task.cancel("the script ended")

    def take(self) -> list[Delivery]:
        """Hand out what is ready, in order.

        What is recorded goes one at a time: it may lead to more that was recorded before the rest.
        """
        self.check()
        while self._recorded:
            _order, number, settled = heapq.heappop(self._recorded)
            if self._forget(number):
                return [_delivery(number, settled)]
        fresh, self._fresh = self._fresh, []
        waiting, self._waiting = self._waiting, []
        known = [each for each in fresh if self._forget(each[0])]
        return waiting + [_delivery(number, settled) for number, settled in known]

    def put_back(self, rest: Sequence[Delivery]) -> None:
        """Keep for later what could not be delivered: what the script asked then may go first."""
        self._waiting = [*rest, *self._waiting]

    def check(self) -> None:
        """Raise what a host call failed with: a Signal that ends the entry at once, or a fault."""
        if self._failure is not None:
            raise self._failure

    @property
    def can_move(self) -> bool:
        """Whether anything may yet settle in this entry; beside what parks no idle timer counts."""
        if not self._parked:
            return bool(self._open)
        return not all(map(self._is_idle, self._open))

    def parking(self) -> Signal | None:
        """Return the signal that ends an entry in which nothing can move."""
        signals = [self._parked[number] for number in sorted(self._parked)]
        if len(signals) <= 1:
            return signals[0] if signals else None
        return Suspend(*(awaited for each in signals for awaited in each.awaited))

    def unawaited(self) -> list[str]:
        """Drop what nobody needs now, and return the names of what is still open or parked."""
        for number in [*self._open, *self._parked]:
            if self._asked[number].name in DROPPED_AT_THE_END:
                self.drop(number)
        return [self._asked[number].name for number in sorted({*self._open, *self._parked})]

    async def finish(self) -> None:
        """Wait for what is open; what parks now is passed over."""
        self.check()
        while self._open:
            await asyncio.wait(self._open.values(), return_when=asyncio.FIRST_COMPLETED)
            self.check()

    async def close(self) -> None:
        """Cancel what is open, and wait until it has ended."""
        tasks = list(self._open.values())
        self._open.clear()
        for task in tasks:
            task.cancel("the script ended")
        if tasks:
            await asyncio.wait(tasks)

    def _is_idle(self, number: int) -> bool:
        message = self._asked.get(number)
        return message is not None and message.name == "timer" and "idle" in (message.value or {})

    def _ask(self, message: Message) -> HostCallResult | Awaitable[HostCallResult]:
        if message.problem:
            return self._bridge.refuse(message.name, message.problem)
        return self._bridge.ask(message.name, message.value)

    def _done(self, number: int, task: asyncio.Future[HostCallResult]) -> None:
        was_open = self._open.pop(number, None) is not None
        if task.cancelled():
            return
        failure = task.exception()
        if not was_open:
            return
        if failure is None:
            self._settle(number, task.result())
        elif isinstance(failure, Suspend):
            self._parked[number] = failure
        else:
            self._failure = self._failure or failure
        self._wake()

    def _forget(self, number: int) -> bool:
        """Tell whether the script still waits for this call, which is over."""
        message = self._asked.pop(number, None)
        self.held -= message.size if message else 0
        return message is not None

    def _settle(self, number: int, settled: HostCallResult) -> None:
        if settled.order is None:
            self._fresh.append((number, settled))
        else:
            heapq.heappush(self._recorded, (settled.order, number, settled))


def _delivery(number: int, settled: HostCallResult) -> Delivery:
    if settled.refusal is None:
        return Delivery(kind="settle", number=number, value=settled.value, at_ms=settled.at_ms)
    refusal = settled.refusal
    value = {"name": refusal.name} | refusal.detail.to_wire()
    return Delivery(kind="refuse", number=number, value=value, at_ms=settled.at_ms)
