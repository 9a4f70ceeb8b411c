"""Tools for running code that is not ours: step its coroutines, and keep what it raises."""

import asyncio
from types import TracebackType
from typing import Any, Self


def unmarked(awaited: Any) -> Any:
    """Return the value that a coroutine yielded, without asyncio's mark on a future.

    A task removes that mark. While a future has it, nothing else can await the future.
    """
    if isinstance(awaited, asyncio.Future):
        awaited._asyncio_future_blocking = False  # noqa: SLF001  the protocol of asyncio's futures
    return awaited


def consume_outcome(awaited: Any) -> None:
    """Retrieve the outcome of a finished future, so that asyncio does not log its exception.

    A task does this for the future that it awaits, also if it is cancelled at the same moment.
    """
    if isinstance(awaited, asyncio.Future) and awaited.done() and not awaited.cancelled():
        awaited.exception()


class CaughtError:
    """A context manager that keeps an Exception of its block; signals and exits pass through."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        """Return this object."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Keep an Exception, and suppress it."""
        if isinstance(error, Exception):
            self.error = error
        return self.error is not None

    def __str__(self) -> str:
        """Return the error as `Type: message`; empty if there is none."""
        return "" if self.error is None else f"{type(self.error).__name__}: {self.error}"
