"""Notices when an async tool keeps the event loop to itself."""

from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class BlockingDetector(Generator[Any, Any, T]):
    """A coroutine, awaited step by step; `tell` gets the seconds of the first step that was long.

    A step lasts from one await that waits to the next.
    """

    __slots__ = ("_limit", "_monotonic", "_tell", "_work")

    def __init__(
        self,
        work: Coroutine[Any, Any, T],
        monotonic: Callable[[], float],
        limit: float,
        tell: Callable[[float], None],
    ) -> None:
        self._work = work
        self._monotonic = monotonic
        self._limit = limit
        self._tell: Callable[[float], None] | None = tell

    def __await__(self) -> Generator[Any, Any, T]:
        """Let it be awaited."""
        return self

    def __next__(self) -> Any:
        """Make the next step: an event loop never sends anything."""
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Make the next step."""
        began = self._monotonic()
        try:
            return self._work.send(value)
        finally:
            self._look(began)

    def throw(self, error: Any, value: Any = None, trace: TracebackType | None = None, /) -> Any:
        """Make the next step with an error."""
        began = self._monotonic()
        try:
            return self._work.throw(error)
        finally:
            self._look(began)

    def close(self) -> None:
        """End it."""
        self._work.close()

    def _look(self, began: float) -> None:
        took = self._monotonic() - began
        if took > self._limit and self._tell is not None:
            self._tell(took)
            self._tell = None
