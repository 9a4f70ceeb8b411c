"""The host calls of one entry, and the order in which their results are delivered.

Guarantees the order on which replay depends: results that an earlier entry recorded come first, the
lowest `order` first and one at a time, with the script run in between; new results follow in the
order in which they settled. A call is in exactly one state: open (a future), parked (it suspended
and settles in a later entry), settled but not delivered (`_recorded`, `_fresh`, `_waiting`), or
forgotten (delivered or dropped, no longer in `_asked`).

`can_move` decides when the entry suspends: no call is open but idle timers, and at least one is
parked. A failure other than Suspend (a Signal, a defect) ends the entry at the next `check`.

Everything runs on the event loop, so nothing is locked. Proof: tests/sandbox/test_calls.py.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence

from penstock.core.call_errors import ScriptError
from penstock.core.errors import Signal, Suspend
from penstock.sandbox.bridge import Bridge, HostCallResult
from penstock.sandbox.eager_call import begin
from penstock.sandbox.messages import Delivery, Message

DROPPED_AT_THE_END = {"sleep", "timer"}
"""Calls without effects: dropped when the script has returned."""


class OpenCalls:
    """The host calls that a script waits for."""

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
        """Bytes of the arguments of calls that have not settled."""

    def ask(self, message: Message) -> None:
        """Start a host call."""
        number = message.number
        if number in self._asked:
            raise ScriptError("the script asked its host twice under one number")
        self._asked[number] = message
        self.held += message.size
        try:
            result = self._ask(message)
            started = result if isinstance(result, HostCallResult) else begin(result)
        except Suspend as signal:
            self._parked[number] = signal
            return
        if isinstance(started, HostCallResult):
            self._settle(number, started)
            return
        self._open[number] = started
        started.add_done_callback(lambda task: self._done(number, task))

    def drop(self, number: int) -> None:
        """Cancel a call that the script no longer needs."""
        self._forget(number)
        self._parked.pop(number, None)
        if task := self._open.pop(number, None):
            task.cancel("the script ended")

    def take(self) -> list[Delivery]:
        """Return the results that can be delivered now, in order.

        A recorded result is returned alone: the script may react with a call whose recorded result
        comes before the rest.
        """
        self.check()
        while self._recorded:
            _order, number, settled = heapq.heappop(self._recorded)
            if self._forget(number):
                return [_delivery(number, settled)]
        fresh, self._fresh = self._fresh, []
        waiting, self._waiting = self._waiting, []
        awaited = [each for each in fresh if self._forget(each[0])]  # the rest was dropped
        return waiting + [_delivery(number, settled) for number, settled in awaited]

    def put_back(self, rest: Sequence[Delivery]) -> None:
        """Keep deliveries for later. Recorded results of calls made meanwhile may come first."""
        self._waiting = [*rest, *self._waiting]

    def check(self) -> None:
        """Raise the failure of a host call: a Signal that ends the entry, or a defect."""
        if self._failure is not None:
            raise self._failure

    @property
    def can_move(self) -> bool:
        """Whether a call can still settle in this entry.

        If a call is parked, idle timers do not count: an interval would keep the entry in memory
        until the parked call is answered, which may take days.
        """
        if not self._parked:
            return bool(self._open)
        return not all(map(self._is_idle, self._open))

    def parking(self) -> Signal | None:
        """Return the Suspend that ends the entry: one that waits for all parked calls."""
        signals = [self._parked[number] for number in sorted(self._parked)]
        if len(signals) <= 1:
            return signals[0] if signals else None
        return Suspend(*(awaited for each in signals for awaited in each.awaited))

    def unawaited(self) -> list[str]:
        """Drop calls without effects; return the names of the others that are open or parked."""
        for number in [*self._open, *self._parked]:
            if self._asked[number].name in DROPPED_AT_THE_END:
                self.drop(number)
        return [self._asked[number].name for number in sorted({*self._open, *self._parked})]

    async def finish(self) -> None:
        """Wait for the open calls. Calls that suspend meanwhile are ignored."""
        self.check()
        while self._open:
            await asyncio.wait(self._open.values(), return_when=asyncio.FIRST_COMPLETED)
            self.check()

    async def close(self) -> None:
        """Cancel the open calls and wait until they have ended."""
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
        failure = task.exception()  # retrieved also for a dropped call, or asyncio logs it
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
        """Remove a call that is over; return whether the script still waited for it."""
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
