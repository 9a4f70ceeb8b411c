"""An event loop in a thread of its own, and runs that a program without async reads from it.

Guarantees: every method may be called from any thread, also inside a running event loop, as in a
notebook: the work runs in the thread of the runtime, and the caller waits for it. An iteration
advances only when the caller asks for the next event, so an answer in the loop body is in time.

Relies on: nothing of a program runs in that thread but its tools, dependencies and hooks. A tool
that calls the sync runtime would wait for itself, so this raises RuntimeMisuse. At the exit of the
program an open runtime is closed; a task that this interrupts resumes at the next start. Any
thread may close it: later calls raise RuntimeMisuse, and so do those that still wait then.

Shown by tests/program/test_sync_run.py and tests/program/test_sync_runtime.py.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Generic, NoReturn, TypeVar

from penstock.chat.python.answering import Target
from penstock.chat.python.public_events import Event
from penstock.chat.python.run import Run
from penstock.core.errors import RuntimeMisuse
from penstock.core.late import late
from penstock.core.reply import OutputT_co, Reply

Value = TypeVar("Value")
_CLOSED = "this runtime is closed: write `with penstock.open_sync() as runtime: ...` around its use"
_CLOSED_MEANWHILE = (
    "this runtime was closed meanwhile; a task that was sent resumes at the next start"
)
_INSIDE = (
    "a tool, hook or dependency runs in the runtime's own thread, where waiting for the runtime "
    "would never end: make it a coroutine, and await what `ctx` offers"
)


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.RLock()  # garbage collection may end a generator in `do`
        self._is_closing = False
        self._endings: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="penstock-runtime", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run a coroutine in the thread, and wait for it. Ctrl-C cancels it."""
        with self._lock:  # what is admitted here runs: `close` ends the loop after it
            wrong = "" if self.is_open else _CLOSED
            wrong = _INSIDE if self._is_inside else wrong
            if wrong:
                work.close()
                raise RuntimeMisuse(wrong)
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            if self._is_closing:
                raise RuntimeMisuse(_CLOSED_MEANWHILE) from None
            raise
        except BaseException:
            future.cancel()
            raise

    def end(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine that ends an iteration; the end of a closed runtime has ended it.

        Garbage collection may end a generator in any thread, also in this one: there it must not
        wait.
        """
        if not self.is_open:
            work.close()
        elif self._is_inside:
            task = self._loop.create_task(work)
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)
        else:
            with suppress(RuntimeMisuse):
                self.do(work)

    @property
    def is_open(self) -> bool:
        """Whether the thread runs, and accepts work."""
        return self._thread.is_alive() and not self._is_closing

    @property
    def _is_inside(self) -> bool:
        return threading.current_thread() is self._thread

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Run a last coroutine, and end the loop and its thread. Later callers wait for that."""
        if self._is_inside:
            raise RuntimeMisuse(_INSIDE)
        with self._lock:
            is_first, self._is_closing = not self._is_closing, True
        if is_first and self._thread.is_alive():
            try:
                if last is not None:
                    asyncio.run_coroutine_threadsafe(last(), self._loop).result()
            finally:
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()


def each_in(items: AsyncIterator[Value], thread: LoopThread) -> Iterator[Value]:
    """Yield the items of an async iterator that runs in the thread."""
    try:
        while True:
            try:
                item = thread.do(_next(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        thread.end(_closed(items))


async def _next(items: AsyncIterator[Value]) -> Value:
    return await anext(items)


async def _closed(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()


class SyncRun(Generic[OutputT_co]):
    """A Run of a program without async: iterate with `for`.

    Example:
        >>> from penstock import open_sync
        >>> with open_sync(":memory:") as runtime:
        ...     run = runtime.start("Hello")
        ...     text = "".join(run.text())
        ...     print(run.reply().status, text == run.reply().output)
        succeeded True
    """

    def __init__(self, run: Run[OutputT_co], thread: LoopThread) -> None:
        self.task_id = run.task_id
        """The task; `attach` takes it, also in another process."""
        self._run = run
        self._thread = thread

    @property
    def session(self) -> str:
        """The conversation.

        Raises:
            RuntimeMisuse: The run was attached to a task, and nothing was read of it yet.
        """
        return self._run.session

    def __iter__(self) -> Iterator[Event]:
        """Return the events as `events` does."""
        return self.events()

    def events(self, *, wait_for_answers: bool = False) -> Iterator[Event]:
        """Yield the events of the task from its beginning, as `Run.events` does.

        Args:
            wait_for_answers: Whether to continue while the task waits for people, until it ends.

        Yields:
            The events. The last one is Ended.
        """
        return each_in(self._run.events(wait_for_answers=wait_for_answers), self._thread)

    def text(self) -> Iterator[str]:
        """Yield the text of the answer in pieces, as `Run.text` does.

        Yields:
            Pieces of text.
        """
        return each_in(self._run.text(), self._thread)

    def reply(self, *, timeout: float | None = None) -> Reply[OutputT_co]:
        """Wait until the task has ended or waits for people.

        Args:
            timeout: How many seconds to wait; None waits without a limit. The task continues.

        Returns:
            The reply.

        Raises:
            TimeoutError: The time was up first.
        """
        return self._thread.do(self._run.reply(timeout=timeout))

    def cancel(self) -> None:
        """Cancel the task, whatever its status. A task that has ended stays as it is."""
        self._thread.do(self._run.cancel())

    def approve(
        self, question: Target, *, input: Mapping[str, Any] | None = None, note: str | None = None
    ) -> None:
        """Approve a call, as `Runtime.approve` does.

        Args:
            question: The question, or its id.
            input: The input to run with instead.
            note: A remark for the model.
        """
        self._thread.do(self._run.approve(question, input=input, note=note))

    def reject(self, question: Target, reason: str) -> None:
        """Reject a call, as `Runtime.reject` does.

        Args:
            question: The question, or its id.
            reason: Why, for the model.
        """
        self._thread.do(self._run.reject(question, reason))

    def answer(self, question: Target, value: Any) -> None:
        """Answer a question, as `Runtime.answer` does.

        Args:
            question: The question, or its id.
            value: The answer.
        """
        self._thread.do(self._run.answer(question, value))

    def __enter__(self) -> NoReturn:
        """Refuse `with`: leaving an iteration needs no clean-up."""
        raise RuntimeMisuse("write `for event in run: ...`: a run needs no `with`")

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        """Return the run with its task."""
        return f"SyncRun(task_id={self.task_id!r})"

    def _ipython_display_(self) -> None:
        """Show the run in a notebook until it ends or waits for people."""
        show: Callable[[object], None] = late("penstock.chat.python.live_view:show_sync")
        show(self)
