"""Tools for code that is not ours: step and time coroutines, keep errors, read signatures."""

import asyncio
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
)
from contextlib import AbstractAsyncContextManager
from types import TracebackType, UnionType
from typing import (
    Annotated,
    Any,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

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

    error: Exception | None = None

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


def returned_type(function: Callable[..., Any]) -> Any:
    """Return the type that a function provides, by its hints; None if it is not known."""
    if inspect.isclass(function):
        return function
    with CaughtError():
        hint = get_type_hints(inspect.unwrap(function)).get("return")
        index = _ARGUMENTS.get(get_origin(hint), -1)
        arguments = get_args(hint)
        return arguments[index] if 0 <= index < len(arguments) else hint
    return None


_ARGUMENTS: Mapping[Any, int] = {
    AbstractAsyncContextManager: 0,
    AsyncGenerator: 0,
    AsyncIterator: 0,
    Awaitable: 0,
    Coroutine: 2,
}
"""Types around what a function provides, and which argument of the type it is."""


def fits(found: Any, wanted: Any) -> bool:
    """Whether a type is another one or below it; True if that cannot be known."""
    if get_origin(wanted) in {Union, UnionType}:
        return any(fits(found, each) for each in get_args(wanted))
    found, wanted = _bare(found), _bare(wanted)
    if wanted is Any or not (inspect.isclass(found) and inspect.isclass(wanted)):
        return True
    with CaughtError():  # protocols that cannot be checked at run time raise TypeError
        return issubclass(found, wanted)
    return True


def _bare(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    return get_origin(hint) or hint


def name_of(thing: Any) -> str:
    """Return the name of a type or a function, for messages."""
    return getattr(thing, "__name__", None) or str(thing)


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
