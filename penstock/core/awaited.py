"""What a coroutine yields when it waits, for those who step one without a task."""

import asyncio
from typing import Any


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
