"""Starts the work of a host call at once: work that never waits costs no iteration of the loop.

Guarantees that the work runs in a task of its own from its first line, so `asyncio.timeout`, task
groups and context variables inside it behave as usual; that work which never awaits has its result
when `begin` returns; and that a cancellation reaches what the work awaits.

How: Python 3.11 has no eager tasks (they came with 3.12). `EagerCall` is a coroutine object which
steps the work once while it is created, with the new task entered as the current one, and whose
first `send` returns what that step yielded. Relies on `_enter_task` and `_leave_task` of asyncio
and on the protocol between a task and the future it awaits; the C implementation of tasks calls
`send` and `throw` in the same way. Proof: tests/sandbox/test_eager_call.py.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import copy_context
from typing import Any

from penstock.core.foreign_code import unmarked
from penstock.sandbox.bridge import HostCallResult


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
        """What the first step yielded: normally a future."""
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
