"""The work of a host call, begun at once: what need not wait takes no turn of the loop."""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import copy_context
from typing import Any

from penstock.core.foreign_code import unmarked
from penstock.sandbox.bridge import HostCallResult


def begin(work: Awaitable[HostCallResult]) -> HostCallResult | asyncio.Task[HostCallResult]:
    """Do the work up to its first wait; returns how it ended, or the task that does the rest."""
    start = EagerCall(work)
    return start.task if start.settled is None else start.settled


class EagerCall(Coroutine[Any, Any, HostCallResult]):
    """Does the work up to its first wait as it is made, in a task of its own, which does the rest.

    The task is there from the beginning: timeouts and task groups hold on to the one they began in.
    What the work raises before it waits is raised here.
    """

    __slots__ = ("_awaited", "_is_ahead", "_is_over", "_work", "settled", "task")

    def __init__(self, work: Awaitable[HostCallResult]) -> None:
        self._work = work.__await__()
        self._is_ahead = True
        """The loop has not stepped the task yet."""
        self._is_over = True
        self._awaited: Any = None
        """What the work waited for first."""
        self.settled: HostCallResult | None = None
        """How the work ended, if it did not wait."""
        context, loop = copy_context(), asyncio.get_running_loop()
        self.task = loop.create_task(self, context=context)
        around = asyncio.current_task()
        if around is not None:
            _leave_task(loop, around)
        _enter_task(loop, self.task)
        try:
            context.run(self._begin)
        finally:
            _leave_task(loop, self.task)
            if around is not None:
                _enter_task(loop, around)

    def __await__(self) -> Generator[Any, Any, HostCallResult]:
        """Let it be awaited."""
        return (yield from self._work)

    def send(self, value: Any) -> Any:
        """Make the next step: the first one is made already."""
        if not self._is_ahead:
            return self._work.send(value)
        self._is_ahead = False
        if self._is_over:
            raise StopIteration(self.settled)
        awaited = self._awaited
        if isinstance(awaited, asyncio.Future) and not awaited.done():
            return next(awaited.__await__())
        return self._work.send(None)

    def throw(self, error: Any, value: Any = None, trace: Any = None, /) -> Any:
        """Make the next step with an error: if it is the first one, a cancellation."""
        is_first, self._is_ahead = self._is_ahead, False
        if not is_first:
            return self._work.throw(error)
        if self._is_over:
            raise error
        awaited = self._awaited
        is_told = isinstance(awaited, asyncio.Future) and awaited.cancel(*error.args)
        if is_told and not awaited.done():
            return next(awaited.__await__())
        return self._work.throw(error)

    def close(self) -> None:
        """Leave the work where it stands."""
        self._work.close()

    def _begin(self) -> None:
        try:
            self._awaited = unmarked(next(self._work))
        except StopIteration as end:
            self.settled = end.value
        else:
            self._is_over = False
