"""Live events for readers in this process: committed events, and replies while they stream.

Guarantees: a reader gets the items of its log in order; a slow reader costs bounded memory and
does not delay the others; an erased text is not delivered after the erase.

How: each reader has a bounded list. When it is full, the list is dropped and the reader is cut; it
must reconnect with its last id and read the gap from the log. So the bus may drop anything at any
time. Readers that wait share timers in steps of 20 ms: a thousand idle streams would otherwise hold
a thousand timers. Replies are not stored until they end; `reply` lets a late reader start with the
part that has streamed so far.

Relies on: the log's listener calls `publish` after the commit, in log order, on the event loop, so
no locks are needed. Shown by tests/engine/test_bus.py.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from penstock.core.call import CallPath
from penstock.core.events.events import Record, TaskBlocked, TaskEnded, TaskSuspended
from penstock.core.ids import LogId, TaskId

_ENDS = (TaskEnded, TaskSuspended, TaskBlocked)
"""Events after which a task does nothing until something arrives from outside."""
OUTPUT_GROWTH = 32
"""A typed output that streams grows by one part of so many before it is read or written again."""


class DeltaKind(StrEnum):
    """The kind of text in a piece of a reply."""

    REASONING = "reasoning"
    TEXT = "text"


class LiveReply(Struct):
    """A reply that is streaming, with all pieces so far."""

    log_id: LogId
    task_id: TaskId
    base: int
    """`seq` of the newest event before it; stream ids count its units from there."""
    iteration: int
    closing: bool = False
    path: CallPath | None = None
    """The frame of the agent that replies; None for the task's main agent."""
    units: int = 0
    """Characters so far, of reasoning and text together."""
    pieces: list[tuple[DeltaKind, str]] = field(default_factory=list)
    output: Callable[[], Any] | None = None
    """Returns the typed output so far, or UNSET; None if the reply shows none."""


class ReplyStarted(Struct, frozen=True):
    """A request to a model is about to be sent."""

    reply: LiveReply


class Delta(Struct, frozen=True):
    """One streamed piece of a reply."""

    reply: LiveReply
    kind: DeltaKind
    text: str
    units: int
    """Characters of the reply so far, including this piece."""


class OutputSoFar(Struct, frozen=True):
    """The typed output of a reply while it streams. It is not stored: the end of the task is."""

    reply: LiveReply
    partial: Any
    """JSON; parts may be missing. It replaces the one before."""


Live = Record | ReplyStarted | Delta | OutputSoFar
_MOMENT = 0.02
"""A waiter may be woken this many seconds late."""


class SharedTimer:
    """Wakes waiters by timeout; all that are due within 20 ms share one timer."""

    def __init__(self) -> None:
        self._due: dict[int, set[asyncio.Future[Any]]] = {}

    def set(self, waiter: asyncio.Future[Any], seconds: float) -> set[asyncio.Future[Any]]:
        """Wake a waiter after `seconds`; return the set to remove it from when it stops waiting."""
        loop = waiter.get_loop()
        due = math.ceil((loop.time() + seconds) / _MOMENT)
        waiters = self._due.get(due)
        if waiters is None:
            waiters = self._due[due] = set()
            loop.call_at(due * _MOMENT, self._ring, due)
        waiters.add(waiter)
        return waiters

    def _ring(self, due: int) -> None:
        for waiter in self._due.pop(due):
            _wake(waiter)


class Subscription:
    """Items that one reader has not taken yet: bounded, and cut if the reader is too slow."""

    __slots__ = ("_items", "_limit", "_others", "_timer", "_waiter", "is_closed", "is_cut")

    def __init__(self, limit: int, timer: "SharedTimer") -> None:
        self._timer = timer
        self._items: list[Live] = []
        self._limit = limit
        self._waiter: asyncio.Future[None] | None = None
        self._others: set[asyncio.Future[Any]] | None = None
        """The set in the shared timer that contains the waiter."""
        self.is_cut = False
        """The reader was too slow. It must reconnect with its last id."""
        self.is_closed = False

    def put(self, item: Live) -> None:
        """Add an item for the reader."""
        if self.is_cut:
            return
        if len(self._items) >= self._limit:
            # Drop the whole queue: the reader reads everything after its last id from the log.
            self.is_cut = True
            self._items.clear()
        else:
            self._items.append(item)
        self._wake()

    def drop(self) -> None:
        """Drop all items that were not taken; the reader fills the gap from the log."""
        self._items.clear()

    def close(self) -> None:
        """End the stream after the items already in it."""
        self.is_closed = True
        self._wake()

    def take(self) -> list[Live]:
        """Return all pending items, possibly none."""
        items, self._items = self._items, []
        return items

    async def wait(self, seconds: float) -> bool:
        """Wait for an item or the end; return False on timeout."""
        if self.has_news:
            return True
        try:
            await self.begin_to_wait(seconds)
        finally:
            self.end_to_wait()
        return self.has_news

    def begin_to_wait(self, seconds: float) -> asyncio.Future[None]:
        """Return a future that resolves at the next item, at the end, or on timeout."""
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        self._others = self._timer.set(waiter, seconds)
        return waiter

    def end_to_wait(self) -> None:
        """Remove the waiter from the shared timer."""
        if self._waiter is not None and self._others is not None:
            self._others.discard(self._waiter)
            self._waiter = self._others = None

    @property
    def has_news(self) -> bool:
        """Whether there is an item, or the stream has ended."""
        return bool(self._items) or self.is_cut or self.is_closed

    def _wake(self) -> None:
        if (waiter := self._waiter) is not None:
            self.end_to_wait()
            _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class AwaitedTask(Struct):
    """A task whose end is awaited in this process."""

    waiters: list["asyncio.Future[Record | None]"] = field(default_factory=list)
    records: list[Record] | None = None
    """Collects its events; None if no waiter reads them."""

    def end(self, record: Record | None) -> None:
        """Wake the waiters; without an event they look for it themselves."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(record)
        self.waiters = []


class Bus:
    """Carries committed events and deltas to readers in this process."""

    def __init__(self) -> None:
        self._readers: dict[LogId, list[Subscription]] = {}
        self._replies: dict[LogId, LiveReply] = {}
        self._awaited: dict[TaskId | None, AwaitedTask] = {}
        self._closed = False
        self.timer = SharedTimer()
        """Shared by everything that waits on this bus with a timeout."""

    def publish(self, records: Sequence[Record]) -> None:
        """Deliver committed events to readers. Called by the log's listener."""
        if self._readers:
            for record in records:
                for reader in self._readers.get(record.log_id, ()):
                    reader.put(record)
        if self._awaited:
            for record in records:
                if (task := self._awaited.get(record.task_id)) is not None:
                    if task.records is not None:
                        task.records.append(record)
                    if type(record.event) in _ENDS:
                        task.end(record)

    def subscribe(self, log_id: LogId, limit: int) -> Subscription:
        """Follow a log, until `unsubscribe`."""
        reader = Subscription(limit, self.timer)
        reader.is_closed = self._closed
        self._readers.setdefault(log_id, []).append(reader)
        return reader

    def unsubscribe(self, log_id: LogId, reader: Subscription) -> None:
        """Stop following a log."""
        readers = self._readers.get(log_id, [])
        if reader in readers:
            readers.remove(reader)
        if not readers:
            self._readers.pop(log_id, None)

    def end_of(
        self, task_id: TaskId, into: list[Record] | None = None
    ) -> "asyncio.Future[Record | None]":
        """Return a future of the event that ends or suspends the task, if committed here.

        The events of the task that are committed here until `forget_end` are added to `into`.
        """
        waiter: asyncio.Future[Record | None] = asyncio.get_running_loop().create_future()
        task = self.watch_end(task_id, waiter)
        if into is not None:
            task.records = into
        return waiter

    def watch_end(self, task_id: TaskId, waiter: "asyncio.Future[Record | None]") -> AwaitedTask:
        """Resolve an existing future with the end of this task, too."""
        if (task := self._awaited.get(task_id)) is None:
            task = self._awaited[task_id] = AwaitedTask()
        task.waiters.append(waiter)
        return task

    def forget_end(self, task_id: TaskId, waiter: "asyncio.Future[Record | None]") -> None:
        """Stop waiting for the end of a task."""
        if (task := self._awaited.get(task_id)) is not None:
            if waiter in task.waiters:
                task.waiters.remove(waiter)
            if not task.waiters:
                del self._awaited[task_id]

    def begin(self, reply: LiveReply) -> None:
        """Announce a request to a model."""
        if reply.path is None:
            self._replies[reply.log_id] = reply
        for reader in self._readers.get(reply.log_id, ()):
            reader.put(ReplyStarted(reply))

    def say(self, reply: LiveReply, kind: DeltaKind, text: str) -> None:
        """Deliver a piece of a reply."""
        reply.units += len(text)
        reply.pieces.append((kind, text))
        readers = self._readers.get(reply.log_id)
        if readers:
            delta = Delta(reply, kind, text, reply.units)
            for reader in readers:
                reader.put(delta)

    def show_output(self, reply: LiveReply, partial: Any) -> None:
        """Deliver the typed output so far."""
        for reader in self._readers.get(reply.log_id, ()):
            reader.put(OutputSoFar(reply, partial))

    def end(self, reply: LiveReply) -> None:
        """Forget a reply that is complete or was aborted: from now on only the log may have it."""
        if self._replies.get(reply.log_id) is reply:
            del self._replies[reply.log_id]

    def reply(self, log_id: LogId) -> LiveReply | None:
        """Return the streaming reply of the task's main agent, with all pieces so far."""
        return self._replies.get(log_id)

    def is_followed(self, log_id: LogId) -> bool:
        """Return whether a reader in this process follows the log."""
        return log_id in self._readers

    def forget(self, log_id: LogId) -> None:
        """Drop the pending items of a log in which something was erased."""
        for reader in self._readers.get(log_id, ()):
            reader.drop()
        for task in self._awaited.values():
            if task.records and task.records[0].log_id == log_id:
                task.records.clear()

    def part_with(self, log_id: LogId) -> None:
        """End the subscriptions of a log that was deleted."""
        self._replies.pop(log_id, None)
        for reader in self._readers.get(log_id, ()):
            reader.close()

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is delivered."""
        return self._closed

    def close(self) -> None:
        """End every subscription, including future ones, and wake all that wait for a task."""
        self._closed = True
        for readers in self._readers.values():
            for reader in readers:
                reader.close()
        for task in self._awaited.values():
            task.end(None)
