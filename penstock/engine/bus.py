"""What happens now, to readers in this process: committed events, and replies on their way."""

import asyncio
import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from penstock.core.call import CallPath
from penstock.core.events.events import Record, TaskBlocked, TaskEnded, TaskSuspended
from penstock.core.ids import LogId, TaskId

_ENDS = (TaskEnded, TaskSuspended, TaskBlocked)
"""Events with which nothing more happens in a task by itself, for now."""


class DeltaKind(StrEnum):
    """What a piece of a reply is a piece of."""

    REASONING = "reasoning"
    TEXT = "text"


class LiveReply(Struct):
    """A reply on its way: all of it so far."""

    log_id: LogId
    task_id: TaskId
    base: int
    """The newest event before it; stream ids count its units from there."""
    iteration: int
    closing: bool = False
    path: CallPath | None = None
    """The frame of the agent that speaks; None for the agent that the task is for."""
    units: int = 0
    """Characters so far, of reasoning and text together."""
    pieces: list[tuple[DeltaKind, str]] = field(default_factory=list)


class ReplyStarted(Struct, frozen=True):
    """A model is about to be asked."""

    reply: LiveReply


class Delta(Struct, frozen=True):
    """A piece of a reply."""

    reply: LiveReply
    kind: DeltaKind
    text: str
    units: int
    """Of the reply, this piece included."""


Live = Record | ReplyStarted | Delta
_MOMENT = 0.02
"""Seconds by which who waits may be woken late."""


class SharedTimer:
    """Wakes who waits, all whose time is up within a moment with one timer: a thousand wait."""

    def __init__(self) -> None:
        self._due: dict[int, set[asyncio.Future[Any]]] = {}

    def set(self, waiter: asyncio.Future[Any], seconds: float) -> set[asyncio.Future[Any]]:
        """Wake a waiter when its time is up; returns with whom, to be taken out again."""
        loop = waiter.get_loop()
        due = math.ceil((loop.time() + seconds) / _MOMENT)
        found = self._due.get(due)
        if found is None:
            found = self._due[due] = set()
            loop.call_at(due * _MOMENT, self._ring, due)
        found.add(waiter)
        return found

    def _ring(self, due: int) -> None:
        for waiter in self._due.pop(due):
            _wake(waiter)


class Subscription:
    """What one reader has not taken yet; bounded, and cut when it falls too far behind."""

    __slots__ = ("_items", "_limit", "_others", "_timer", "_waiter", "is_closed", "is_cut")

    def __init__(self, limit: int, timer: "SharedTimer") -> None:
        self._timer = timer
        self._items: list[Live] = []
        self._limit = limit
        self._waiter: asyncio.Future[None] | None = None
        self._others: set[asyncio.Future[Any]] | None = None
        """Who is woken with the waiter when its time is up."""
        self.is_cut = False
        """The reader was too slow: it must come back with the last id it has."""
        self.is_closed = False

    def put(self, item: Live) -> None:
        """Hand an item over."""
        if self.is_cut:
            return
        if len(self._items) >= self._limit:
            self.is_cut = True
            self._items.clear()
        else:
            self._items.append(item)
        self._wake()

    def drop(self) -> None:
        """Take back all that was not taken yet: readers fill the gap from the log."""
        self._items.clear()

    def close(self) -> None:
        """End the stream after what is already in it."""
        self.is_closed = True
        self._wake()

    def take(self) -> list[Live]:
        """Return all there is now, perhaps nothing."""
        items, self._items = self._items, []
        return items

    async def wait(self, seconds: float) -> bool:
        """Wait for an item or the end; False when the time was up first."""
        if self.has_news:
            return True
        try:
            await self.begin_to_wait(seconds)
        finally:
            self.end_to_wait()
        return self.has_news

    def begin_to_wait(self, seconds: float) -> asyncio.Future[None]:
        """Return what is done with the next item, at the end, or when the time is up."""
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        self._others = self._timer.set(waiter, seconds)
        return waiter

    def end_to_wait(self) -> None:
        """Forget who waits."""
        if self._waiter is not None and self._others is not None:
            self._others.discard(self._waiter)
            self._waiter = self._others = None

    @property
    def has_news(self) -> bool:
        """Whether there is an item, or the end."""
        return bool(self._items) or self.is_cut or self.is_closed

    def _wake(self) -> None:
        if (waiter := self._waiter) is not None:
            self.end_to_wait()
            _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Bus:
    """Carries committed events and deltas to readers in this process."""

    def __init__(self) -> None:
        self._readers: dict[LogId, list[Subscription]] = {}
        self._replies: dict[LogId, LiveReply] = {}
        self._ends: dict[TaskId, list[asyncio.Future[Record]]] = {}
        self._closed = False
        self.timer = SharedTimer()
        """For all who wait for something here, at most so long."""

    def publish(self, records: Sequence[Record]) -> None:
        """Tell readers what was committed; the log's listener."""
        for record in records:
            for reader in self._readers.get(record.log_id, ()):
                reader.put(record)
            if self._ends and type(record.event) in _ENDS and record.task_id:
                for waiter in self._ends.pop(record.task_id, ()):
                    if not waiter.done():
                        waiter.set_result(record)

    def subscribe(self, log_id: LogId, limit: int) -> Subscription:
        """Begin to follow a log; give it back with `unsubscribe`."""
        reader = Subscription(limit, self.timer)
        reader.is_closed = self._closed
        self._readers.setdefault(log_id, []).append(reader)
        return reader

    def unsubscribe(self, log_id: LogId, reader: Subscription) -> None:
        """Stop to follow a log."""
        readers = self._readers.get(log_id, [])
        if reader in readers:
            readers.remove(reader)
        if not readers:
            self._readers.pop(log_id, None)

    def end_of(self, task_id: TaskId) -> "asyncio.Future[Record]":
        """Return what will be the event that ends or parks the task, if this process commits it."""
        waiter: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self.watch_end(task_id, waiter)
        return waiter

    def watch_end(self, task_id: TaskId, waiter: "asyncio.Future[Record]") -> None:
        """Let who waits for something else hear of the end of this task, too."""
        self._ends.setdefault(task_id, []).append(waiter)

    def forget_end(self, task_id: TaskId, waiter: "asyncio.Future[Record]") -> None:
        """Stop to wait for the end of a task."""
        waiters = self._ends.get(task_id, [])
        if waiter in waiters:
            waiters.remove(waiter)
        if not waiters:
            self._ends.pop(task_id, None)

    def begin(self, reply: LiveReply) -> None:
        """Say that a model is about to be asked."""
        if reply.path is None:
            self._replies[reply.log_id] = reply
        for reader in self._readers.get(reply.log_id, ()):
            reader.put(ReplyStarted(reply))

    def say(self, reply: LiveReply, kind: DeltaKind, text: str) -> None:
        """Pass a piece of a reply on."""
        reply.units += len(text)
        reply.pieces.append((kind, text))
        readers = self._readers.get(reply.log_id)
        if readers:
            delta = Delta(reply, kind, text, reply.units)
            for reader in readers:
                reader.put(delta)

    def end(self, reply: LiveReply) -> None:
        """Say that a reply is whole, or cut: from now on the log has it, or nothing does."""
        if self._replies.get(reply.log_id) is reply:
            del self._replies[reply.log_id]

    def reply(self, log_id: LogId) -> LiveReply | None:
        """Return the reply of a task's own agent that is on its way, as far as it has come."""
        return self._replies.get(log_id)

    def is_followed(self, log_id: LogId) -> bool:
        """Whether anybody in this process reads the log live."""
        return log_id in self._readers

    def forget(self, log_id: LogId) -> None:
        """Take back what readers of a log have not taken yet, because something was erased."""
        for reader in self._readers.get(log_id, ()):
            reader.drop()

    def part_with(self, log_id: LogId) -> None:
        """End the subscriptions of a log that was deleted."""
        self._replies.pop(log_id, None)
        for reader in self._readers.get(log_id, ()):
            reader.close()

    def close(self) -> None:
        """End every subscription, also those that are still to come."""
        self._closed = True
        for readers in self._readers.values():
            for reader in readers:
                reader.close()
