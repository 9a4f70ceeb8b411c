"""The threads of scripts that compute for long."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from penstock.sandbox.watch import Watch

MOST_THREADS = 32
_STACK = 4 << 20
"""Bytes of stack: some systems give threads half a megabyte, less than a script may use."""

_Result = TypeVar("_Result")


class Pool:
    """Computes steps of scripts beside the loop.

    Scripts that loop can fill it; others go on, because what is short never comes here.
    """

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def compute(self, step: Callable[[], _Result], watch: Watch) -> _Result:
        """Return what the step returns. Cancelled, it ends when the thread has left the script."""
        future = asyncio.wrap_future(self._opened().submit(step))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            watch.ended = "cancelled"
            # Its memory is freed next: nobody may be in it.
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()
            raise

    def close(self) -> None:
        """End the threads, which compute nothing any more."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _opened(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                MOST_THREADS, thread_name_prefix="script", initializer=_noop
            )
        threading.stack_size(max(_STACK, threading.stack_size()))
        return self._threads


def _noop() -> None:
    return
