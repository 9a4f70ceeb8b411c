"""Tools for running code that is not ours: step its coroutines, and keep what it raises."""

import asyncio
from types import TracebackType
from typing import Any, Self


def unmarked(awaited: Any) -> Any:
    """Return what a coroutine yielded, without the mark that a task takes away.

    A future that bears it refuses whoever awaits it next.
    """
    if isinstance(awaited, asyncio.Future):
        awaited._asyncio_future_blocking = False  # noqa: SLF001  the protocol of asyncio's futures
    return awaited


def consume_outcome(awaited: Any) -> None:
    """Take the outcome of what is over, or a loop reports a failure that nobody comes for.

    A task takes that of what it waits for by itself, also when it is cancelled at the same moment.
    """
    if isinstance(awaited, asyncio.Future) and awaited.done() and not awaited.cancelled():
        awaited.exception()


class CaughtError:
    """Takes what is raised in its block, but for what ends a task or the process."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Keep what was raised."""
        if isinstance(error, Exception):
            self.error = error
        return self.error is not None

    def __str__(self) -> str:
        """Return it in one line; nothing where nothing was raised."""
        return "" if self.error is None else f"{type(self.error).__name__}: {self.error}"
