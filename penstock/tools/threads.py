"""Threads for tools that block: bounded, and never waited for at the end of the process."""

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
    """Runs synchronous functions beside the event loop, at most `most` at once.

    A thread cannot be stopped. When the caller of `run` is cancelled, a function that has begun
    continues with all its side effects, and only its result is dropped; one that has not begun
    never does. Where what the function works on ends with the caller, use `finish`.
    Threads are daemons, so a stuck one does not keep the process alive.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._free = 0
        """Threads without work, less the jobs that wait."""
        self._closed = False

    async def run(self, work: Callable[[], Any]) -> Any:
        """Return what the function returns, or raise what it raises."""
        return await self._begin(work)

    async def finish(self, work: Callable[[], Any]) -> Any:
        """Do as `run` does; a caller that is cancelled after it began waits for its end first."""
        start = Future[None]()
        waiter = self._begin(lambda: work() if start.set_running_or_notify_cancel() else None)
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

    def _begin(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            if waiter.cancelled():
                return
            outcome = _Outcome()
            with outcome:
                outcome.value = context.run(work)
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(outcome.tell, waiter)

        try:
            self._put(job)
        except RuntimeError as error:
            waiter.cancel()  # a thread that is started later must not do the job after all
            raise_exhaustion(error)
            raise
        return waiter

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let another thread work while this one only waits for the event loop.

        Else functions that wait for what takes a thread itself could take all there are.
        """
        with self._lock:
            self._most += 1
            self._grow()
        try:
            yield
        finally:
            with self._lock:
                self._most -= 1

    def close(self) -> None:
        """Take no new work; idle threads end, others when they have done their job."""
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
        """Start a thread if one is lacking and may be; the lock is held."""
        if self._free < 0 and self._started < self._most:
            self._started += 1
            self._free += 1
            name = f"penstock-tool-{self._started}"
            try:
                threading.Thread(target=self._work, name=name, daemon=True).start()
            except RuntimeError:
                self._started -= 1
                self._free -= 1
                if not self._started:
                    raise  # else another thread comes for the job

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            with self._lock:
                if self._started > self._most:
                    self._started -= 1
                    return  # it worked in the place of one that goes on by now
                self._free += 1


class _Outcome:
    """What a function returned or raised, whatever it was."""

    __slots__ = ("error", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        """Begin to watch."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Keep what was raised. A StopIteration cannot pass through an awaiting coroutine."""
        is_odd = isinstance(error, StopIteration)
        self.error = RuntimeError(f"the tool raised {error!r}") if is_odd else error
        return True

    def tell(self, waiter: "asyncio.Future[Any]") -> None:
        """Hand over what happened, if anybody still waits."""
        if waiter.done():
            return
        if self.error is not None:
            waiter.set_exception(self.error)
        else:
            waiter.set_result(self.value)
