"""Run a tool's coroutine so that cancelling it always ends it.

A tool may swallow its cancellation, wait for a task that does not react, or cancel its own task by
mistake. This module guarantees that the call still ends within `limits.cut_seconds` of its
cancellation, and that a cancellation which the tool caused itself ends only the tool.

It works by stepping the coroutine by hand, in the asyncio task that owns the call. Each step shows
what the tool waits for. If that is another task or an asyncio future subclass, the step waits for a
gate instead: the gate opens with the future, and can be cancelled without it. After a cancellation
a timer cancels again, `CUTS` times in all; when the time is up, the coroutine is
closed and left behind. Cancellations that a step adds to the task's own count
(`Task.cancelling()`) come from the tool, and are taken back after it (`absorb`).

A Deadline ends the tool with TimeoutError; a cancellation from elsewhere stays a CancelledError,
whichever of the two comes first. As `asyncio.timeout` does, it counts its own cancellations and
takes them back with `Task.uncancel()`. Two things only this one can do: start later than it is
created, and cancel again while a tool swallows cancellations (decision 033). A CancelReason tells
nested calls and calls around them for which of them a cancellation is meant.

It relies on `Task.cancelling()`/`uncancel()` of Python 3.11, on the event loop driving a coroutine
only with `send(None)` and `throw`, and on CancelReason marking the cancellations of the runtime.
A script is left to its sandbox. A thread cannot be stopped (`resources/threads`).

Proof: `tests/tools/test_cancellable.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from penstock.core.foreign_code import consume_outcome, unmarked
from penstock.tools.invocation import Invocation
from penstock.tools.policy import SCRIPT

log = logging.getLogger(__name__)
CUTS = 3
"""How often a tool that continues is cancelled within `limits.cut_seconds`. More would interrupt an
`await` in its cleanup; fewer would leave no second chance."""

_CLOSINGS = 3
"""How often to call `close` on a coroutine that awaits while it is closed."""


class CancelReason(NamedTuple):
    """Marks a cancellation by the runtime, and the call that it ends."""

    why: str
    depth: int
    """Depth of the call that must end together with its nested calls."""


class Deadline:
    """Cancels the holding task when its time is up, and raises TimeoutError.

    A cancellation from elsewhere stays a CancelledError, whichever of the two came first.
    """

    __slots__ = ("_at", "_cancelled", "_cancelling", "_depth", "_handle", "_task", "is_over")

    def __init__(self, task: "asyncio.Task[Any] | None", seconds: float, *, depth: int = 0) -> None:
        assert task is not None  # noqa: S101  a coroutine runs in a task
        self._task = task
        self._cancelling = task.cancelling()
        self._cancelled = 0
        self._depth = depth
        self._at = task.get_loop().time() + seconds
        self._handle: asyncio.TimerHandle | None = None
        self.is_over = False
        """Whether the time ran out before `finish`."""

    def start(self) -> None:
        """Start the timer. The time counts from the creation of this object."""
        self._handle = self._task.get_loop().call_at(self._at, self._end)

    def pause(self) -> None:
        """Stop the timer until `resume`: the time between does not count."""
        if self._handle is not None:
            self._handle.cancel()
        self._at -= self._task.get_loop().time()

    def resume(self) -> None:
        """Start the timer again with the time that was left."""
        self._at += self._task.get_loop().time()
        self.start()

    def finish(self, error: BaseException | None) -> None:
        """Take back the deadline's cancellations. Raises TimeoutError in place of its own.

        `error` is what the work raised; None if it returned. Does nothing before `start`.
        """
        if self._handle is not None:
            self._handle.cancel()
        if not self._cancelled:
            return
        while self._cancelled:
            self._cancelled -= 1
            self._task.uncancel()
        is_alone = self._task.cancelling() <= self._cancelling
        if self.is_over and is_alone and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def __enter__(self) -> Self:
        """Start the timer."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish with the error of the block."""
        self.finish(error)

    def cancel(self) -> None:
        """Cancel the task. `finish` takes the cancellation back."""
        self._cancelled += 1
        self._task.cancel(CancelReason("the runtime ends this call", self._depth))

    def _end(self) -> None:
        self.is_over = True
        self.cancel()


class CancellableWork(Generator[Any, Any, Any]):
    """A coroutine that is awaited step by step in the task that owns the call.

    The deadline starts at the first wait: before it, no timer could interrupt the tool, and a tool
    that never waits saves the timer.
    """

    __slots__ = (
        "_awaited",
        "_handle",
        "_invocation",
        "_is_dropped",
        "_is_limited",
        "_limit",
        "_until",
        "_work",
        "is_closed",
    )

    def __init__(
        self, work: Coroutine[Any, Any, Any], invocation: Invocation, limit: Deadline
    ) -> None:
        self._work = work
        self._invocation = invocation
        self._limit = limit
        self._is_limited = False
        self._awaited: asyncio.Future[Any] | None = None
        """The task or future that the tool waits for, if that could swallow a cancellation."""
        self._handle: asyncio.TimerHandle | None = None
        self._until = 0.0
        self._is_dropped = False
        self.is_closed = False
        """The calling tool was left behind, and this nested call with it."""

    def finish(self, error: BaseException | None) -> None:
        """Take back the deadline's cancellations. Raises TimeoutError in place of its own."""
        self._limit.finish(error)

    def __await__(self) -> Generator[Any, Any, Any]:
        """Return the steps, so that the object can be awaited."""
        return self

    def __next__(self) -> Any:
        """Run the next step."""
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Run the next step. The event loop always sends None."""
        return self._step(self._work.send, value)

    def throw(self, error: Any, value: Any = None, trace: TracebackType | None = None, /) -> Any:
        """Raise an error in the coroutine, and run its next step."""
        if isinstance(error, asyncio.CancelledError):
            if self._is_dropped:
                self._drop()
                raise error
            self._watch(error)
            awaited = self._awaited
            # As asyncio does: cancel what the tool waits for. The tool gets CancelledError from it.
            if awaited is not None and awaited.cancel(*error.args):
                return _gate(awaited)
        return self._step(self._work.throw, error)

    def close(self) -> None:
        """Leave the coroutine behind, because the call around it is left behind."""
        self.is_closed = True
        self.end()
        self._drop()

    def end(self) -> None:
        """Stop the timer that cancels again."""
        if self._handle is not None:
            self._handle.cancel()

    async def absorb(self) -> None:
        """Take back the tool's own cancellations, so that they do not hit the next await."""
        invocation, runner = self._invocation, self._invocation.runner
        if not runner.own_cancels or runner.task is None:
            return
        # A requested cancellation is delivered at the next await: let it arrive here.
        with suppress(asyncio.CancelledError):
            await invocation.edition.world.clock.sleep(0)
        for _ in range(runner.own_cancels):
            runner.task.uncancel()
        runner.own_cancels = 0

    def is_cut_by(self, error: BaseException) -> bool:
        """Whether the error is a cancellation from outside the tool."""
        if isinstance(error, GeneratorExit):
            return self.is_closed
        return isinstance(error, asyncio.CancelledError) and self._invocation.runner.is_cut

    def _step(self, advance: Callable[[Any], Any], argument: Any) -> Any:
        """Run a step, and count the cancellations that the tool itself requests in it."""
        owner = self._invocation.runner.task
        before = 0 if owner is None else owner.cancelling()
        try:
            return self._cancellable(advance(argument))
        finally:
            if owner is not None and (added := owner.cancelling() - before):
                self._count_own(added)

    def _count_own(self, added: int) -> None:
        invocation, ledger = self._invocation, self._invocation.ledger
        # A cancel of the task or a lost lease may arrive during a step: that one is not the tool's.
        if not ledger.task.cancel_requested and ledger.held.lost is None:
            runner = invocation.runner
            runner.own_cancels = max(0, runner.own_cancels + added)

    def _cancellable(self, awaited: Any) -> Any:
        """Return what the event loop waits for, so that a cancellation always ends the wait."""
        if not self._is_limited:
            self._is_limited = True
            self._limit.start()
        # A plain Future is always cancelled at once; a Task or a subclass may refuse.
        if awaited is None or type(awaited) is asyncio.Future:
            self._awaited = None
            return awaited
        if not isinstance(awaited, asyncio.Future):
            return awaited
        self._awaited = awaited
        return _gate(awaited)

    def _watch(self, error: asyncio.CancelledError) -> None:
        """Start to cancel again, if this call or a call around it must end."""
        invocation = self._invocation
        if not (error.args and invocation.runner.is_cut):
            return
        reason, depth = error.args[0], invocation.call.depth
        if isinstance(reason, CancelReason) and reason.depth > depth:
            return  # the deadline of a nested call, which passes through this one's coroutine
        if not isinstance(reason, CancelReason) or reason.depth < depth:
            invocation.runner.is_unwanted = True
        if self._handle is not None or invocation.spec.kind == SCRIPT:
            return
        loop, limits = asyncio.get_running_loop(), invocation.edition.world.limits
        self._until = loop.time() + limits.cut_seconds
        self._handle = loop.call_later(limits.cut_seconds / CUTS, self._cancel_again)

    def _cancel_again(self) -> None:
        self._handle = None
        invocation = self._invocation
        if not invocation.runner.is_cut:
            return
        loop, limits = asyncio.get_running_loop(), invocation.edition.world.limits
        left = self._until - loop.time()
        if left <= 0:
            self._is_dropped = True
            text = "tool %s still ran %g s after it was cancelled, and is left behind"
            log.warning(text, invocation.spec.tool_id, limits.cut_seconds)
        else:
            self._handle = loop.call_later(min(limits.cut_seconds / CUTS, left), self._cancel_again)
        self._limit.cancel()

    def _drop(self) -> None:
        """Close the coroutine, and ignore every error that it raises meanwhile."""
        self._invocation.end()
        for _ in range(_CLOSINGS):
            with suppress(BaseException):
                self._work.close()
                return


async def run_to_end(work: CancellableWork, invocation: Invocation) -> Any:
    """Run the tool once, and wait for the nested calls that it left running.

    A Signal that ended a nested call is raised again, even if the tool swallowed it. Raises
    TimeoutError if the deadline ended the tool. The deadline also limits that wait.
    """
    is_cut = False
    try:
        try:
            output = await work
        except asyncio.CancelledError:
            is_cut = True
            raise
        finally:
            # This order matters: the timer must not fire again while nested calls settle, and the
            # tool's own cancellations must not cancel that wait.
            work.end()
            await work.absorb()
            try:
                if work.is_closed:
                    invocation.cancel_nested()
                else:
                    await invocation.settle_nested(cancel=is_cut)
            finally:
                invocation.end()
            if invocation.signal is not None:
                raise invocation.signal
    except BaseException as error:
        # Here, not in a context manager around it: that costs two more calls for each tool call.
        # After the nested calls: the deadline limits the wait for them, too.
        work.finish(error)
        raise
    work.finish(None)
    return output


def _gate(awaited: "asyncio.Future[Any]") -> Any:
    """Return a future that completes with the other one, and can be cancelled without it."""
    gate = asyncio.get_running_loop().create_future()
    unmarked(awaited).add_done_callback(partial(_open, gate))
    return next(gate.__await__())


def _open(gate: "asyncio.Future[None]", awaited: "asyncio.Future[Any]") -> None:
    consume_outcome(awaited)
    if not gate.done():
        gate.set_result(None)
