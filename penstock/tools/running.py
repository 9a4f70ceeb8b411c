"""The environment of a running tool: its asyncio task with a deadline, or a thread.

**Deadline.** The task gets TimeoutError when its time is over, and a cancellation from elsewhere
stays a CancelledError, whichever of the two comes first. As `asyncio.timeout` does, it counts its
own cancellations and takes them back with `Task.uncancel()`. Two things only this one can do: start
later than it is created, and cancel again while a tool swallows cancellations (decision 033). A
CancelReason tells nested calls and calls around them for which of them a cancellation is meant.

**Threads.** At most `limits.tool_threads` functions run at once (plus those whose threads wait for
the event loop, see `lent`). A function whose caller is cancelled before it started never runs. A
stuck function does not keep the process alive: `ThreadPoolExecutor` was no option, because its
threads are joined at exit. A lock guards the counts; `_free` is negative while jobs wait, which is
the condition for another thread. A thread cannot be stopped from outside, so a function that has
started runs to its end, and only its result is dropped.

**BlockingDetector.** It reports an async tool that keeps the event loop to itself.

Proof: `tests/tools/test_running.py`.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from penstock.core.exhaustion import raise_exhaustion


class CancelReason(NamedTuple):
    """Marks a cancellation by the runtime, and the call that it ends."""

    why: str
    depth: int
    """Depth of the call that must end together with its nested calls."""


class Runner:
    """The asyncio task that runs a call, and which of its cancellations come from outside."""

    __slots__ = ("_before", "is_unwanted", "own_cancels", "task")

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        # A failed TaskGroup may leave its task with a pending count, so a count proves nothing.
        self._before = self.task.cancelling() if self.task else 0
        self.own_cancels = 0
        """How often the tool cancelled its own asyncio task."""
        self.is_unwanted = False
        """Whether it was cancelled from outside, and not by the call's own deadline."""

    @property
    def is_cut(self) -> bool:
        """Whether a cancellation is pending that the tool did not request itself."""
        task = self.task
        return task is not None and task.cancelling() > self._before + self.own_cancels


class Deadline:
    """Cancels the holding task when its time is over, and raises TimeoutError.

    A cancellation from elsewhere stays a CancelledError, whichever of the two came first.
    """

    __slots__ = ("_at", "_cancelled", "_cancelling", "_depth", "_handle", "_task", "is_over")

    def __init__(self, task: "asyncio.Task[Any] | None", seconds: float, *, depth: int = 0) -> None:
        assert task is not None  # noqa: S101  a coroutine runs in a task
        self._task = task
        self._cancelling = task.cancelling()
        self._cancelled = 0
        self._depth = depth
        self._at = task.get_loop().time() + seconds
        self._handle: asyncio.TimerHandle | None = None
        self.is_over = False
        """Whether the time ran out before the block ended."""

    def __enter__(self) -> Self:
        """Start the timer. The time counts from the creation of this object."""
        self._handle = self._task.get_loop().call_at(self._at, self._end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take back the deadline's cancellations. Raises TimeoutError in place of its own."""
        if self._handle is not None:
            self._handle.cancel()
        if not self._cancelled:
            return
        while self._cancelled:
            self._cancelled -= 1
            self._task.uncancel()
        is_alone = self._task.cancelling() <= self._cancelling
        if (
            self.is_over
            and is_alone
            and kind is not None
            and issubclass(kind, asyncio.CancelledError)
        ):
            raise TimeoutError from error

    def cancel(self) -> None:
        """Cancel the task. `__exit__` takes the cancellation back."""
        self._cancelled += 1
        self._task.cancel(CancelReason("the runtime ends this call", self._depth))

    def _end(self) -> None:
        self.is_over = True
        self.cancel()


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


T = TypeVar("T")


class BlockingDetector(Generator[Any, Any, T]):
    """Awaits a coroutine step by step, and reports the first step over `limit` seconds once.

    A step lasts from one await that waits to the next. `report` gets its seconds.
    """

    __slots__ = ("_limit", "_monotonic", "_report", "_work")

    def __init__(
        self,
        work: Coroutine[Any, Any, T],
        monotonic: Callable[[], float],
        limit: float,
        report: Callable[[float], None],
    ) -> None:
        self._work = work
        self._monotonic = monotonic
        self._limit = limit
        self._report: Callable[[float], None] | None = report

    def __await__(self) -> Generator[Any, Any, T]:
        """Return the steps, so that the object can be awaited."""
        return self

    def __next__(self) -> Any:
        """Run the next step."""
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Run the next step. The event loop always sends None."""
        began = self._monotonic()
        try:
            return self._work.send(value)
        finally:
            self._check(began)

    def throw(self, error: Any, value: Any = None, trace: TracebackType | None = None, /) -> Any:
        """Raise an error in the coroutine, and run its next step."""
        began = self._monotonic()
        try:
            return self._work.throw(error)
        finally:
            self._check(began)

    def close(self) -> None:
        """Close the coroutine."""
        self._work.close()

    def _check(self, began: float) -> None:
        seconds = self._monotonic() - began
        if seconds > self._limit and self._report is not None:
            self._report(seconds)
            self._report = None
