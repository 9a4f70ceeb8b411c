"""Threads for tools that block: bounded, and never waited for when the process ends.

It guarantees that at most `limits.tool_threads` functions run at once (plus those whose threads
wait for the event loop, see `lent`), that a function whose caller is cancelled before it started
never runs, and that a stuck function does not keep the process alive. `ThreadPoolExecutor` was no
option: its threads are joined at exit, so one stuck tool blocks the end of the process.

It relies on daemon threads and on one queue. A lock guards the counts; `_free` is negative while
jobs wait, which is the condition for another thread. A thread cannot be stopped from outside, so
a function that has started runs to its end. Only its result is dropped.

Proof: `tests/tools/test_threads.py`.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

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

    async def run(self, work: Callable[[], Any]) -> Any:
        """Return what the function returns, or raise what it raises."""
        return await self._start(work)

    async def finish(self, work: Callable[[], Any]) -> Any:
        """Like `run`, but a cancelled caller first waits for the end of a started function."""
        start = Future[None]()
        # `start` decides the race between the thread that starts the work and the cancellation:
        # exactly one of `set_running_or_notify_cancel` and `cancel` succeeds.
        waiter = self._start(lambda: work() if start.set_running_or_notify_cancel() else None)
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

    def _start(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
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
    """What a function returned or raised."""

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
