"""Tools for running code that is not ours: step its coroutines, time them, keep what it raises."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


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


def takes(function: Any, count: int) -> bool:
    """Whether so many positional arguments can be passed; True if it cannot be known."""
    with CaughtError() as fault:  # a ValueError: some functions in C have no signature
        inspect.signature(function).bind(*[None] * count)
    return not isinstance(fault.error, TypeError)


class BlockingDetector(Generator[Any, Any, T]):
    """Awaits a coroutine step by step, and reports the first step over `limit` seconds once.

    A step lasts from one await that waits to the next. `report` gets its seconds.
    """

    __slots__ = ("_limit", "_monotonic", "_report", "_work")

    def __init__(
        self,
        work: Coroutine[Any, Any, T],
        monotonic: Callable[[], float],
        limit: float,
        report: Callable[[float], None],
    ) -> None:
        self._work = work
        self._monotonic = monotonic
        self._limit = limit
        self._report: Callable[[float], None] | None = report

    def __await__(self) -> Generator[Any, Any, T]:
        """Return the steps, so that the object can be awaited."""
        return self

    def __next__(self) -> Any:
        """Run the next step."""
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Run the next step. The event loop always sends None."""
        began = self._monotonic()
        try:
            return self._work.send(value)
        finally:
            self._check(began)

    def throw(self, error: Any, value: Any = None, trace: TracebackType | None = None, /) -> Any:
        """Raise an error in the coroutine, and run its next step."""
        began = self._monotonic()
        try:
            return self._work.throw(error)
        finally:
            self._check(began)

    def close(self) -> None:
        """Close the coroutine."""
        self._work.close()

    def _check(self, began: float) -> None:
        seconds = self._monotonic() - began
        if seconds > self._limit and self._report is not None:
            self._report(seconds)
            self._report = None
