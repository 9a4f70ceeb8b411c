"""Threads for synchronous functions of tools.

At most `limits.tool_threads` functions run at once (plus those whose threads wait for the event
loop, see `lent`). A function whose caller is cancelled before it started never runs. A stuck
function does not keep the process alive: `ThreadPoolExecutor` was no option, because its threads
are joined at exit. A lock guards the counts; `_free` is negative while jobs wait, which is the
condition for another thread. A thread cannot be stopped from outside, so a function that has
started runs to its end, and only its result is dropped.

Proof: `tests/resources/test_threads.py`.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from penstock.core.exhaustion import raise_exhaustion

Job = Callable[[], None]


class Threads:
    """Runs synchronous functions in threads, at most `max_threads` at once.

    When the caller of `run` is cancelled, a function that has started continues with all its side
    effects, and its result is dropped; one that has not started never runs. If the function uses
    something that ends with the caller, use `finish`.
    """

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._free = 0
        """Idle threads minus waiting jobs."""
        self._closed = False

    def run(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Start the function. The future gets what it returns, or raises what it raises."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            if waiter.cancelled():
                return
            outcome = _Outcome()
            with outcome:
                outcome.value = context.run(work)
            with suppress(RuntimeError):  # the event loop was closed meanwhile
                loop.call_soon_threadsafe(outcome.deliver, waiter)

        try:
            self._put(job)
        except RuntimeError as error:
            waiter.cancel()  # the job is still queued: no later thread may run it
            raise_exhaustion(error)
            raise
        return waiter

    async def finish(self, work: Callable[[], Any]) -> Any:
        """Like `run`, but a cancelled caller first waits for the end of a started function."""
        start = Future[None]()
        # `start` decides the race between the thread that starts the work and the cancellation:
        # exactly one of `set_running_or_notify_cancel` and `cancel` succeeds.
        waiter = self.run(lambda: work() if start.set_running_or_notify_cancel() else None)
        cancelled: asyncio.CancelledError | None = None
        while not waiter.done():
            try:
                await asyncio.wait([waiter])
            except asyncio.CancelledError as error:
                if start.cancel():
                    waiter.cancel()
                cancelled = error
        if cancelled is not None:
            with suppress(asyncio.CancelledError):
                waiter.exception()  # no caller is left to receive it
            raise cancelled
        return waiter.result()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let another thread work while this one only waits for the event loop.

        Without it, functions that wait for nested calls could occupy all threads, and the nested
        calls, which need a thread themselves, would never run.
        """
        with self._lock:
            self._max_threads += 1
            self._grow()
        try:
            yield
        finally:
            with self._lock:
                self._max_threads -= 1

    def close(self) -> None:
        """Refuse new work. Each thread ends when its job is done."""
        with self._lock:
            self._closed = True
            for _ in range(self._started):
                self._jobs.put(None)

    def _put(self, job: Job) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("the runtime was closed: no tool can run any more")
            self._jobs.put(job)
            self._free -= 1
            self._grow()

    def _grow(self) -> None:
        """Start a thread if a job waits and the bound allows it. The lock is held."""
        if self._free < 0 and self._started < self._max_threads:
            self._started += 1
            self._free += 1
            name = f"penstock-tool-{self._started}"
            try:
                threading.Thread(target=self._work, name=name, daemon=True).start()
            except RuntimeError:
                self._started -= 1
                self._free -= 1
                if not self._started:
                    raise  # otherwise a busy thread runs the job later

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            with self._lock:
                if self._started > self._max_threads:
                    self._started -= 1
                    return  # it replaced a lent thread, which works again
                self._free += 1


class _Outcome:
    """The result or the error of a function."""

    __slots__ = ("error", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        """Enter the block whose error is kept."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Keep the error. A StopIteration cannot pass through an awaiting coroutine."""
        is_odd = isinstance(error, StopIteration)
        self.error = RuntimeError(f"the tool raised {error!r}") if is_odd else error
        return True

    def deliver(self, waiter: "asyncio.Future[Any]") -> None:
        """Complete the future, unless its caller was cancelled."""
        if waiter.done():
            return
        if self.error is not None:
            waiter.set_exception(self.error)
        else:
            waiter.set_result(self.value)
