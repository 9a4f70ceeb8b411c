"""The work of a tool, which ends when it is cancelled, whether it wants to or not."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from penstock.core.foreign_code import consume_outcome, unmarked
from penstock.tools.access.policy import SCRIPT
from penstock.tools.invocation import Invocation
from penstock.tools.running.deadline import CancelReason, Deadline

log = logging.getLogger(__name__)

_CLOSINGS = 3
"""Awaits that stand in the way while a coroutine is closed."""


class CancellableWork(Generator[Any, Any, Any]):
    """A coroutine, awaited step by step in the task that owns the call.

    One that goes on after it was cancelled is cancelled again and again for a while, and is then
    closed where it stands. A script is left to its sandbox, which ends it by itself. What a tool
    cancels of its own accord, such as a timeout inside it, is its own affair.

    Its deadline is watched from its first wait on: before that, nothing could end it.
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
        """What can keep the tool from hearing of its cancellation: a task that it waits for."""
        self._handle: asyncio.TimerHandle | None = None
        self._until = 0.0
        self._is_dropped = False
        self.is_closed = False
        """A call around this one was left behind, and this one with it."""

    def __enter__(self) -> Self:
        """Do nothing: the deadline is entered late."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the deadline; raises TimeoutError in place of its cancellation."""
        if self._is_limited:
            self._limit.__exit__(kind, error, trace)

    def __await__(self) -> Generator[Any, Any, Any]:
        """Let it be awaited."""
        return self

    def __next__(self) -> Any:
        """Make the next step: an event loop never sends anything."""
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Make the next step."""
        return self._step(self._work.send, value)

    def throw(self, error: Any, value: Any = None, trace: TracebackType | None = None, /) -> Any:
        """Make the next step with an error."""
        if isinstance(error, asyncio.CancelledError):
            if self._is_dropped:
                self._drop()
                raise error
            self._watch(error)
            awaited = self._awaited
            if awaited is not None and awaited.cancel(*error.args):
                return _gate(awaited)
        return self._step(self._work.throw, error)

    def close(self) -> None:
        """Leave it behind, because a call around it is."""
        self.is_closed = True
        self.end()
        self._drop()

    def end(self) -> None:
        """Insist on nothing any more."""
        if self._handle is not None:
            self._handle.cancel()

    async def absorb(self) -> None:
        """Take in what the tool cancelled of its own accord: it must hit nothing that follows."""
        invocation, owner = self._invocation, self._invocation.owner
        if not invocation.own_cancels or owner is None:
            return
        with suppress(asyncio.CancelledError):
            await invocation.inside.world.clock.sleep(0)
        for _ in range(invocation.own_cancels):
            owner.uncancel()
        invocation.own_cancels = 0

    def is_cut_by(self, error: BaseException) -> bool:
        """Whether this error says that somebody outside wants the end, not the tool itself."""
        if isinstance(error, GeneratorExit):
            return self.is_closed
        return isinstance(error, asyncio.CancelledError) and self._invocation.is_cut

    def _step(self, advance: Callable[[Any], Any], given: Any) -> Any:
        """Make a step; who cancels the task in it is the tool itself, or the end of the task."""
        owner = self._invocation.owner
        before = 0 if owner is None else owner.cancelling()
        try:
            return self._waiting(advance(given))
        finally:
            if owner is not None and (more := owner.cancelling() - before):
                self._count(more)

    def _count(self, more: int) -> None:
        invocation, ledger = self._invocation, self._invocation.ledger
        if not ledger.task.cancel_requested and ledger.held.lost is None:
            invocation.own_cancels = max(0, invocation.own_cancels + more)

    def _waiting(self, awaited: Any) -> Any:
        """Return what the event loop waits for, such that a cancellation always ends the wait."""
        if not self._is_limited:
            self._is_limited = True
            self._limit.__enter__()
        if awaited is None or type(awaited) is asyncio.Future:
            self._awaited = None
            return awaited
        if not isinstance(awaited, asyncio.Future):
            return awaited
        self._awaited = awaited
        return _gate(awaited)

    def _watch(self, error: asyncio.CancelledError) -> None:
        """Begin to insist, if it is this call or one around it that is to end."""
        invocation = self._invocation
        if not (error.args and invocation.is_cut):
            return
        said, depth = error.args[0], invocation.call.depth
        if isinstance(said, CancelReason) and said.depth > depth:
            return
        if not isinstance(said, CancelReason) or said.depth < depth:
            invocation.is_unwanted = True
        if self._handle is not None or invocation.spec.kind == SCRIPT:
            return
        loop, limits = asyncio.get_running_loop(), invocation.inside.world.limits
        self._until = loop.time() + limits.cut_seconds
        self._handle = loop.call_later(
            min(limits.cut_again_seconds, limits.cut_seconds), self._insist
        )

    def _insist(self) -> None:
        self._handle = None
        invocation = self._invocation
        if not invocation.is_cut:
            return
        loop, limits = asyncio.get_running_loop(), invocation.inside.world.limits
        left = self._until - loop.time()
        if left <= 0:
            self._is_dropped = True
            text = "tool %s went on for %g s after it was cancelled, and is left behind"
            log.warning(text, invocation.spec.tool_id, limits.cut_seconds)
        else:
            self._handle = loop.call_later(min(limits.cut_again_seconds, left), self._insist)
        self._limit.cancel()

    def _drop(self) -> None:
        """Close the coroutine; whatever it says to that is nobody's concern."""
        self._invocation.end()
        for _ in range(_CLOSINGS):
            with suppress(BaseException):
                self._work.close()
                return


def _gate(awaited: "asyncio.Future[Any]") -> Any:
    """Return a future that opens with the other one, and can be cancelled without it."""
    gate = asyncio.get_running_loop().create_future()
    unmarked(awaited).add_done_callback(partial(_open, gate))
    return next(gate.__await__())


def _open(gate: "asyncio.Future[None]", awaited: "asyncio.Future[Any]") -> None:
    consume_outcome(awaited)
    if not gate.done():
        gate.set_result(None)
