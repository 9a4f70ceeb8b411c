"""What a coroutine yields when it waits, for those who step one without a task."""

import asyncio
from typing import Any


def taken(awaited: Any) -> Any:
    """Return what a coroutine yielded, without the mark that a task takes away.

    A future that bears it refuses whoever awaits it next.
    """
    if isinstance(awaited, asyncio.Future):
        awaited._asyncio_future_blocking = False  # noqa: SLF001  the protocol of asyncio's futures
    return awaited
