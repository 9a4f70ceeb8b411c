"""An event loop in its own thread, so that the main thread can wait for a person.

Why two threads: reading a line blocks, and Python delivers Ctrl-C only to the main thread. With the
loop in the main thread a prompt would stop every call, and Ctrl-C would interrupt the loop itself.

Guarantees: Ctrl-C ends a wait of the main thread and loses no item of a `Feed`; leaving the block
cancels everything that still runs and waits for it. Relies on: only the main thread uses
`Background`; coroutines that it passes run in the loop's thread only.

Proof: tests/cli/interaction/test_background.py.
"""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Generic, Self, TypeVar

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
