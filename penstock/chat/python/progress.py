"""A bar on the terminal for `Runtime.map`; the one file of this package that loads rich."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

T = TypeVar("T")


async def with_bar(items: AsyncGenerator[T, None], total: int) -> AsyncGenerator[T, None]:
    """Yield items, and show how many of them are done until the reader leaves."""
    bar = ProgressBar(total)
    try:
        async with aclosing(items):
            async for item in items:
                yield item
                bar.advance()
    finally:
        bar.stop()


class ProgressBar:
    """How many inputs are done, on standard error."""

    def __init__(self, total: int) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task("", total=total)
        self._progress.start()

    def advance(self) -> None:
        """Count one more input as done."""
        self._progress.advance(self._task)

    def stop(self) -> None:
        """End the thread that draws the bar, and show the cursor again."""
        self._progress.stop()
