"""The host calls of one entry: started at once, delivered in a fixed order.

Guarantees the order on which replay depends: results that an earlier entry recorded come first, the
lowest `order` first and one at a time, with the script run in between; new results follow in the
order in which they settled. A call is in exactly one state: open (a future), parked (it suspended
and settles in a later entry), settled but not delivered (`_recorded`, `_fresh`, `_waiting`), or
forgotten (delivered or dropped, no longer in `_asked`).

`can_move` decides when the entry suspends: no call is open but idle timers, and at least one is
parked. A failure other than Suspend (a Signal, a defect) ends the entry at the next `check`.

`begin` makes the first step of a call at once: work that never waits costs no iteration of the
loop, which a task would (21 % of a nested call, decision 033). The work runs in a task of its own
from its first line, so `asyncio.timeout`, task groups and context variables inside it behave as
usual, and a cancellation reaches what it awaits. Python 3.11 has no eager tasks (they came with
3.12): `EagerCall` is a coroutine object which steps the work once while it is created, with the new
task entered as the current one, and whose first `send` returns what that step yielded. It relies on
`_enter_task` and `_leave_task` of asyncio and on the protocol between a task and the future it
awaits; the C implementation of tasks calls `send` and `throw` in the same way.

Everything runs on the event loop, so nothing is locked. Proof: tests/sandbox/test_entry_calls.py.
"""

import asyncio
import heapq
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextvars import copy_context
from typing import Any

from penstock.core.call_errors import ScriptError
from penstock.core.errors import Signal, Suspend
from penstock.core.foreign_code import unmarked
from penstock.sandbox.bridge import Bridge, HostCallResult
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
        """Remove a call that has ended; return whether the script still waited for it."""
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


def begin(work: Awaitable[HostCallResult]) -> HostCallResult | asyncio.Task[HostCallResult]:
    """Run the work up to its first wait; return its result, or the task that does the rest."""
    start = EagerCall(work)
    return start.task if start.settled is None else start.settled


class EagerCall(Coroutine[Any, Any, HostCallResult]):
    """A coroutine whose first step runs when it is created.

    An exception before the first wait is raised by the constructor.
    """

    __slots__ = ("_awaited", "_is_ahead", "_is_over", "_work", "settled", "task")

    def __init__(self, work: Awaitable[HostCallResult]) -> None:
        self._work = work.__await__()
        self._is_ahead = True
        """The work is one step ahead of the task, which the loop has not stepped yet."""
        self._is_over = True
        self._awaited: Any = None
        """The value that the first step yielded: normally a future."""
        self.settled: HostCallResult | None = None
        """The result, if the work did not wait."""
        context, loop = copy_context(), asyncio.get_running_loop()
        self.task = loop.create_task(self, context=context)
        caller = asyncio.current_task()
        # `asyncio.timeout` and task groups cancel the task that they were entered in.
        if caller is not None:
            _leave_task(loop, caller)
        _enter_task(loop, self.task)
        try:
            context.run(self._run_first_step)
        finally:
            _leave_task(loop, self.task)
            if caller is not None:
                _enter_task(loop, caller)

    def __await__(self) -> Generator[Any, Any, HostCallResult]:
        """Await the work."""
        return (yield from self._work)

    def send(self, value: Any) -> Any:
        """Make the next step. The first one was made in the constructor."""
        if not self._is_ahead:
            return self._work.send(value)
        self._is_ahead = False
        if self._is_over:
            raise StopIteration(self.settled)
        awaited = self._awaited
        if isinstance(awaited, asyncio.Future) and not awaited.done():
            # Yield the future again: `unmarked` took the mark by which a task accepts it.
            return next(awaited.__await__())
        return self._work.send(None)

    def throw(self, error: Any, value: Any = None, trace: Any = None, /) -> Any:
        """Make the next step with an error. Before the first step that is a cancellation."""
        is_first, self._is_ahead = self._is_ahead, False
        if not is_first:
            return self._work.throw(error)
        if self._is_over:
            raise error
        awaited = self._awaited
        # The task did not know the future when it was cancelled, so the future is cancelled here.
        is_cancelled = isinstance(awaited, asyncio.Future) and awaited.cancel(*error.args)
        if is_cancelled and not awaited.done():
            return next(awaited.__await__())
        return self._work.throw(error)

    def close(self) -> None:
        """Close the work."""
        self._work.close()

    def _run_first_step(self) -> None:
        try:
            self._awaited = unmarked(next(self._work))
        except StopIteration as end:
            self.settled = end.value
        else:
            self._is_over = False
