"""The threads for scripts that compute for long.

Guarantees that `compute` returns, raises or is cancelled only when no thread uses the memory of the
guest any more, because the caller frees it next. Scripts that loop can fill the pool; short steps
never come here, so they are not affected. Relies on the alarm of the guest to end a step: Python
cannot stop a thread. The threads run below the priority of the event loop. They do not survive
fork(), so a child process starts with none. Proof: tests/sandbox/wasm/test_pool.py.
"""

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

MAX_THREADS = 32
_STACK = 4 << 20
"""Bytes of stack per thread. The default of some systems, 512 KB, is less than a script may use."""

_NICENESS = 5
"""Gives a script a third of the event loop's share when both need the processor."""

_Result = TypeVar("_Result")


class Pool:
    """Computes steps of scripts in threads."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self.busy = 0
        """Number of steps that run or wait for a thread."""
        # Threads do not survive fork(): steps of the child would wait for them forever.
        pool = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(pool()))

    async def compute(self, step: Callable[[], _Result], timer: EntryTimer) -> _Result:
        """Run the step in a thread and return its result.

        If cancelled, waits until the thread has left the script. Raises TimeoutError with a reason
        if no thread was free in time, or the pool was closed.
        """
        job = self._opened().submit(step)
        future = asyncio.wrap_future(job)
        self.busy += 1
        try:
            done, _ = await asyncio.wait([future], timeout=max(timer.left, 0))
            # `cancel` succeeds only for a step that has not started. A started step ends by the
            # alarm of the guest, which knows the same deadline.
            if not done and job.cancel():
                raise TimeoutError("timeout")
            await asyncio.wait([future])
        except asyncio.CancelledError:
            timer.ended = "cancelled"
            job.cancel()
            await _wait_until_done(future)
            raise
        finally:
            self.busy -= 1
        if future.cancelled():
            raise TimeoutError("closed")
        return future.result()

    def forget(self) -> None:
        """Start without threads in a child process."""
        self._threads, self.busy = None, 0

    def close(self) -> None:
        """End the threads. Steps that wait for one raise TimeoutError."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _opened(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                MAX_THREADS, thread_name_prefix="script", initializer=_lower_priority
            )
        # The setting is global and applies to threads as they start; the executor starts them late.
        threading.stack_size(max(_STACK, threading.stack_size()))
        return self._threads


def _lower_priority() -> None:
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


async def _wait_until_done(future: asyncio.Future[_Result]) -> None:
    """Wait until the thread is done, also if cancelled again: the caller frees the memory next."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    if not future.cancelled():
        future.exception()  # retrieved, or asyncio logs it as never retrieved
