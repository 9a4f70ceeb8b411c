"""The threads of scripts that compute for long."""

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from penstock.sandbox.entry_timer import EntryTimer

MOST_THREADS = 32
_STACK = 4 << 20
"""Bytes of stack: some systems give threads half a megabyte, less than a script may use."""

_NICENESS = 5
"""A third of the share of the loop, where both want the processor."""

_Result = TypeVar("_Result")


class Pool:
    """Computes steps of scripts beside the loop.

    Scripts that loop can fill it; others go on, because what is short never comes here.
    """

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self.busy = 0
        """Steps that are computed, or wait for a thread."""
        # Threads do not survive fork(): the child would hand them work for ever.
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(itself()))

    async def compute(self, step: Callable[[], _Result], timer: EntryTimer) -> _Result:
        """Return what the step returns. Cancelled, it ends when the thread has left the script.

        Raises TimeoutError when no thread was free in time, or will be any more.
        """
        job = self._opened().submit(step)
        future = asyncio.wrap_future(job)
        self.busy += 1
        try:
            done, _ = await asyncio.wait([future], timeout=max(timer.left, 0))
            if not done and job.cancel():
                raise TimeoutError("timeout")
            await asyncio.wait([future])
        except asyncio.CancelledError:
            timer.ended = "cancelled"
            job.cancel()
            await _left(future)
            raise
        finally:
            self.busy -= 1
        if future.cancelled():
            raise TimeoutError("closed")
        return future.result()

    def forget(self) -> None:
        """Begin anew in a child process."""
        self._threads, self.busy = None, 0

    def close(self) -> None:
        """End the threads, which compute nothing any more."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _opened(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                MOST_THREADS, thread_name_prefix="script", initializer=_stand_back
            )
        threading.stack_size(max(_STACK, threading.stack_size()))
        return self._threads


def _stand_back() -> None:
    """Lower this thread's priority below the event loop's, where threads have their own."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        # A thread starts with the niceness of its process. Root may lower that again, so in a
        # process started by `nice -n 10` the plain value would put scripts ahead of the loop.
        niceness = max(_NICENESS, os.getpriority(os.PRIO_PROCESS, thread))
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, niceness)


def _forget(pool: Pool | None) -> None:
    if pool is not None:
        pool.forget()


async def _left(future: asyncio.Future[_Result]) -> None:
    """Wait until the thread is out, however often this is cancelled: the memory is freed next."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    if not future.cancelled():
        future.exception()
