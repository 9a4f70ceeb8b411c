"""An event loop in a thread of its own, so that the main thread may wait for a person."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

Value = TypeVar("Value")


class Background:
    """Runs what is awaited; `with` starts and ends it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-loop")

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cancel what still runs, and end."""
        self.do(_cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Wait for the work; Ctrl-C ends the waiting, not the work."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def enter(self, context: AbstractAsyncContextManager[Value]) -> Value:
        """Enter an async context; leave it with `leave`."""
        return self.do(context.__aenter__())

    def leave(self, context: AbstractAsyncContextManager[Any]) -> None:
        """Leave an async context that was entered."""
        self.do(_leave(context))

    def feed(self, items: AsyncIterator[Value]) -> "Feed[Value]":
        """Return what the iterator yields, to be taken in this thread."""
        queue: SimpleQueue[tuple[Value, ...]] = SimpleQueue()
        return Feed(queue, asyncio.run_coroutine_threadsafe(_fill(queue, items), self._loop))


class Feed(Generic[Value]):
    """Items on their way from the loop's thread to another."""

    def __init__(self, queue: "SimpleQueue[tuple[Value, ...]]", filling: "Future[None]") -> None:
        self._queue = queue
        self._filling = filling

    def take(self) -> Value | None:
        """Wait for the next item; None after the last. Ctrl-C loses none."""
        for item in self._queue.get():
            return item
        self._filling.result()
        return None


async def _fill(queue: "SimpleQueue[tuple[Value, ...]]", items: AsyncIterator[Value]) -> None:
    """Put every item in, then nothing, whatever happens."""
    try:
        async for item in items:
            queue.put((item,))
    finally:
        queue.put(())


async def _leave(context: AbstractAsyncContextManager[Any]) -> None:
    await context.__aexit__(None, None, None)


async def _cancel_all() -> None:
    here = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not here]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
