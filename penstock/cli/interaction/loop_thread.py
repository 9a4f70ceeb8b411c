"""An event loop in its own thread, so that the main thread can wait for a person and for Ctrl-C.

Why two threads: reading a line blocks, and Python delivers Ctrl-C only to the main thread. With the
loop in the main thread a prompt would stop every call, and Ctrl-C would interrupt the loop itself.

Guarantees: Ctrl-C ends a wait of the main thread and loses no item of a `Feed`; leaving the block
cancels everything that still runs and waits for it. `TaskStopper` cancels a task at Ctrl-C, and
explains its state to a person who does not wait for its end. Relies on: only the main thread uses
`Background`; coroutines that it passes run in the loop's thread only.

Proof: tests/cli/interaction/test_loop_thread.py.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

from penstock.app.runtime import Runtime
from penstock.cli.terminal.exit_codes import INTERRUPTED
from penstock.cli.terminal.output import note
from penstock.core.errors import PenstockError
from penstock.core.ids import TaskId
from penstock.core.task import TaskRecord

Value = TypeVar("Value")


@contextmanager
def on_interrupt(act: Callable[[], None] | None) -> Iterator[None]:
    """Call `act` at Ctrl-C until the block ends. None raises KeyboardInterrupt, as Python does."""

    def handle(number: int, frame: FrameType | None) -> None:
        if act is None:
            raise KeyboardInterrupt
        act()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Background:
    """Runs coroutines in its thread. `with` starts and stops the thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._fillings: set[Future[None]] = set()
        """Kept here because a loop alone does not keep its tasks from the garbage collector."""
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-loop")

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cancel all tasks and stop the thread."""
        self.do(_cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run the work and return its result. Ctrl-C ends the wait, not the work."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def enter(self, context: AbstractAsyncContextManager[Value]) -> Value:
        """Enter an async context; the caller leaves it with `leave`."""
        return self.do(context.__aenter__())

    def leave(self, context: AbstractAsyncContextManager[Any]) -> None:
        """Leave an async context that was entered."""
        self.do(_leave(context))

    def feed(self, items: AsyncIterator[Value]) -> "Feed[Value]":
        """Run an async iterator in the loop; return its items for this thread."""
        queue: SimpleQueue[tuple[Value, ...] | None] = SimpleQueue()
        filling = asyncio.run_coroutine_threadsafe(_fill(queue, items), self._loop)
        self._fillings.add(filling)
        filling.add_done_callback(self._fillings.discard)
        return Feed(queue, filling)


class Feed(Generic[Value]):
    """Items of an async iterator, passed from the loop's thread to the main thread."""

    def __init__(
        self, queue: "SimpleQueue[tuple[Value, ...] | None]", filling: "Future[None]"
    ) -> None:
        self._queue = queue
        self._filling = filling

    def take(self, seconds: float | None = None) -> Value | None:
        """Wait for the next item; None after the last one.

        Raises KeyboardInterrupt after `interrupt`, without losing an item, TimeoutError if no item
        arrives within `seconds`, and the iterator's error if it failed.
        """
        try:
            item = self._queue.get(timeout=seconds)
        except Empty:
            raise TimeoutError from None
        if item is None:
            raise KeyboardInterrupt
        if item:
            return item[0]
        self._filling.result()
        return None

    def close(self) -> None:
        """Stop waiting for more items; the iterator is closed."""
        self._filling.cancel()

    def interrupt(self) -> None:
        """Let the next `take` raise KeyboardInterrupt.

        A signal handler calls this instead of raising, which could cut an item's output in half.
        """
        self._queue.put(None)


async def _fill(
    queue: "SimpleQueue[tuple[Value, ...] | None]", items: AsyncIterator[Value]
) -> None:
    """Queue every item, then the end marker, also after an error."""
    try:
        async for item in items:
            queue.put((item,))
    finally:
        queue.put(())


async def _leave(context: AbstractAsyncContextManager[Any]) -> None:
    await context.__aexit__(None, None, None)


async def _cancel_all() -> None:
    this_task = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not this_task]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


Tell = Callable[[str], None]
"""Prints a message for the person, next to the command's output."""


def ending(task: TaskRecord, status: str) -> str:
    """Return the line about a task that a command cancelled."""
    soon = "" if task.status.is_final else "; it ends as soon as its running tools return"
    return f"{task.task_id} {status}{soon}"


class TaskStopper:
    """A task that the person wants to end. Creating a TaskStopper cancels it."""

    def __init__(
        self, runtime: Runtime, background: Background, task_id: TaskId, *, tell: Tell = note
    ) -> None:
        self._task_id = task_id
        self._tell = tell
        self._is_cancelled = False
        """The cancellation is stored: the task ends now or in the next process that resumes it."""
        self.seconds = runtime.parts.world.limits.shutdown_seconds
        """How long to wait for the end."""
        tell("Cancelling. Press Ctrl-C again to exit at once.")
        try:
            background.do(runtime.requests.cancel(task_id))
        except PenstockError:
            return
        self._is_cancelled = True

    @property
    def farewell(self) -> str:
        """The state of the task for a person who does not wait for its end."""
        if self._is_cancelled:
            follow = f"penstock tasks events {self._task_id} --follow"
            return f"The task has not ended yet. A server ends it when it starts, or run: {follow}"
        cancel = f"penstock tasks cancel {self._task_id}"
        return f"The task could not be cancelled; a server would continue it. Run: {cancel}"

    def leave(self) -> NoReturn:
        """End the process at once, without cleanup: the next process needs only what is on disk."""
        self._tell(self.farewell)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
