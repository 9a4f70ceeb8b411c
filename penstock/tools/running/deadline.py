"""A time limit around one entry of a tool: `asyncio.timeout` at a fraction of its cost."""

import asyncio
from types import TracebackType
from typing import Any, NamedTuple, Self


class CancelReason(NamedTuple):
    """What a cancellation of this runtime says of itself."""

    why: str
    depth: int
    """Of the call whose work is to end, with all that it called."""


class Deadline:
    """Cancels the task that holds it when its time is over, and says so by TimeoutError.

    A cancellation that came from elsewhere stays one, whichever of the two came first.
    """

    __slots__ = ("_at", "_cancelled", "_cancelling", "_depth", "_handle", "_task", "is_over")

    def __init__(self, task: "asyncio.Task[Any] | None", seconds: float, *, depth: int = 0) -> None:
        assert task is not None  # noqa: S101  what is awaited is awaited in a task
        self._task = task
        self._cancelling = task.cancelling()
        self._cancelled = 0
        self._depth = depth
        self._at = task.get_loop().time() + seconds
        self._handle: asyncio.TimerHandle | None = None
        self.is_over = False
        """The time was over before what was begun."""

    def __enter__(self) -> Self:
        """Begin to watch the time, which runs since this was made."""
        self._handle = self._task.get_loop().call_at(self._at, self._end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take back what the deadline did; raises TimeoutError in place of its own cancellation."""
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
        """Cancel the task; it is taken back at the end."""
        self._cancelled += 1
        self._task.cancel(CancelReason("nobody waits for it any more", self._depth))

    def _end(self) -> None:
        self.is_over = True
        self.cancel()
