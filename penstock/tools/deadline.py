"""A time limit around one entry of a tool, at a fraction of the cost of `asyncio.timeout`.

It guarantees that the holding task gets TimeoutError when its time is over, and that a cancellation
from elsewhere stays a CancelledError, whichever of the two comes first. As `asyncio.timeout` does,
it counts its own cancellations and takes them back with `Task.uncancel()`; it converts the
CancelledError only if no other cancellation is left. Two differences: it can be started later than
it is created, and it can cancel again while a tool swallows cancellations. `asyncio.timeout` can do
neither. Each cancellation carries a CancelReason, by which calls inside and around tell whether it
is meant for them.

Proof: `tests/tools/test_deadline.py`.
"""

import asyncio
from types import TracebackType
from typing import Any, NamedTuple, Self


class CancelReason(NamedTuple):
    """Marks a cancellation by the runtime, and the call that it ends."""

    why: str
    depth: int
    """Depth of the call that must end together with its nested calls."""


class Runner:
    """The asyncio task that runs a call, and which of its cancellations come from outside."""

    __slots__ = ("_before", "is_unwanted", "own_cancels", "task")

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        # A failed TaskGroup may leave its task with a pending count, so a count alone is no proof.
        self._before = self.task.cancelling() if self.task else 0
        self.own_cancels = 0
        """How often the tool cancelled its own asyncio task."""
        self.is_unwanted = False
        """Whether it was cancelled from outside, and not by the call's own deadline."""

    @property
    def is_cut(self) -> bool:
        """Whether a cancellation is pending that the tool did not request itself."""
        task = self.task
        return task is not None and task.cancelling() > self._before + self.own_cancels


class Deadline:
    """Cancels the holding task when its time is over, and raises TimeoutError.

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
        """Whether the time ran out before the block ended."""

    def __enter__(self) -> Self:
        """Start the timer. The time counts from the creation of this object."""
        self._handle = self._task.get_loop().call_at(self._at, self._end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take back the deadline's cancellations. Raises TimeoutError in place of its own."""
        if self._handle is not None:
            self._handle.cancel()
        if not self._cancelled:
            return
        while self._cancelled:
            self._cancelled -= 1
            self._task.uncancel()
        is_alone = self._task.cancelling() <= self._cancelling
        if (
            self.is_over
            and is_alone
            and kind is not None
            and issubclass(kind, asyncio.CancelledError)
        ):
            raise TimeoutError from error

    def cancel(self) -> None:
        """Cancel the task. `__exit__` takes the cancellation back."""
        self._cancelled += 1
        self._task.cancel(CancelReason("the runtime ends this call", self._depth))

    def _end(self) -> None:
        self.is_over = True
        self.cancel()
