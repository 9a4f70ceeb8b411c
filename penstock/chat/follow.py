"""What a log holds and what happens in it now, in one order, without gap or double."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from msgspec import Struct

from penstock.chat.remote_replies import RemoteReplies
from penstock.core.events.events import (
    Record,
    ReplyReceived,
    ReplyRestarted,
    TaskEnded,
    TaskSuspended,
)
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.engine.bus import Bus, Delta, DeltaKind, Live, LiveReply, ReplyStarted
from penstock.store.logs.log import Log

PAGE = 500
_SLOWEST_POLL = 4
_QUIET_POLL = 8


class LogSource(Struct, frozen=True, kw_only=True):
    """Where readers get what they follow."""

    log: Log
    bus: Bus
    limits: Limits


class LogTail:
    """One reader of a log: first what is stored, then what happens.

    It is subscribed before it reads, fills every gap from the log, and looks at the log now and
    then for what another process writes. A burst that is more than its queue holds it reads again;
    it is cut only when it was not asked for more in the meantime.
    """

    __slots__ = (
        "_log_id",
        "_reader",
        "_remote",
        "_seq",
        "_silence",
        "_source",
        "is_quiet",
        "is_stored",
    )

    def __init__(
        self, source: LogSource, log_id: LogId, *, after: int, stored: bool = True
    ) -> None:
        self._source = source
        self._log_id = log_id
        self._seq = after
        self.is_stored = stored
        """Whether the log may hold what was not read yet."""
        self._silence = 0.0
        self._reader = source.bus.subscribe(log_id, source.limits.stream_frames)
        self._remote = RemoteReplies(source.log.live_text, log_id)
        self.is_quiet = False
        """Set by who knows that no task is at work: then the log is looked at less often."""

    async def take(self) -> Sequence[Live] | None:
        """Wait for more; nothing means a long silence, None that the stream is over or was cut.

        It is over when the log was erased, too.
        """
        if self.is_cut:
            return None
        while True:
            if self.has_more:
                found = await self.take_ready()
                if found is None or found:
                    return found
            elif not await self._reader.wait(self._patience()):
                looked = await self.look()
                if looked is not None:
                    return looked

    @property
    def has_more(self) -> bool:
        """Whether there may be something to take now."""
        return self.is_stored or self._reader.has_news

    @property
    def is_cut(self) -> bool:
        """Whether more came than is kept for who does not take it."""
        return self._reader.is_cut

    async def take_ready(self) -> Sequence[Live] | None:
        """Return what there is, which may be nothing after all; None when the stream is over."""
        if self.is_stored:
            return await self.catch_up()
        if self.is_cut:
            self._subscribe_again()
            return ()
        self._silence = 0.0
        items = self._reader.take()
        return await self._without_gaps(items) if items else None

    async def look(self) -> Sequence[Live] | None:
        """Look for what another process wrote; nothing: a long silence, None: a short one."""
        limits = self._source.limits
        if self._polls and (found := await self._elsewhere()):
            self._silence = 0.0
            return found
        if self._silence >= limits.ping_seconds:
            self._silence = 0.0
            if not await self._is_erased():
                return ()
            self.stop()
        return None

    def more(self) -> "asyncio.Future[None]":
        """Return what is done once there is more to take, or it is time to look for it."""
        return self._reader.begin_to_wait(self._patience())

    def stop(self) -> None:
        """End the stream: `take` gives what is there, then None."""
        self._reader.close()

    def close(self) -> None:
        """Stop to follow."""
        self._reader.end_to_wait()
        self._source.bus.unsubscribe(self._log_id, self._reader)

    async def catch_up(self) -> Sequence[Live]:
        """Read the log's next page; with the last one comes the reply that is on its way."""
        records = await self._read()
        self.is_stored = len(records) == PAGE
        if self.is_stored:
            return records
        came = [each for each in self._reader.take() if isinstance(each, Record)]
        newer = await self._without_gaps(came)
        reply = self._source.bus.reply(self._log_id)
        if reply is None:
            return [*records, *newer]
        self._remote.pass_over(reply.base)
        return [*records, *newer, *so_far(reply)]

    async def _is_erased(self) -> bool:
        """Whether the log is there no more; another process may have erased it."""
        return await self._source.log.head(self._log_id) < self._seq

    async def _elsewhere(self) -> Sequence[Live]:
        """Return what another process wrote, and after that what its model is saying."""
        records = await self._read()
        self._remote.hear(records)
        if self.is_quiet or len(records) == PAGE:
            return records
        said = await self._remote.listen()
        return [*records, *await self._without_gaps(said)] if said else records

    def _patience(self) -> float:
        """Return how long to wait for the bus, and count that time as silence."""
        limits = self._source.limits
        seconds = max(limits.ping_seconds - self._silence, 0)
        if self._polls:
            polls = _QUIET_POLL if self.is_quiet else min(1 + self._silence, _SLOWEST_POLL)
            seconds = min(seconds, polls * limits.poll_seconds)
            if self._remote.is_on and self._silence < limits.followed_seconds:
                seconds = min(seconds, limits.live_text_seconds)
        self._silence += seconds
        return seconds

    @property
    def _polls(self) -> bool:
        """Whether another process may be writing: not while a reply is on its way here."""
        return self._source.bus.reply(self._log_id) is None

    def _subscribe_again(self) -> None:
        self.close()
        self.is_stored = True
        self._reader = self._source.bus.subscribe(self._log_id, self._source.limits.stream_frames)

    async def _without_gaps(self, items: Sequence[Live]) -> list[Live]:
        """Return the items in order, with what is missing between them from the log."""
        whole: list[Live] = []
        for item in items:
            if isinstance(item, Record):
                if item.seq <= self._seq:
                    continue
                while self._seq < item.seq - 1 and (missed := await self._read(item.seq - 1)):
                    whole += missed
                self._seq = item.seq
            elif item.reply.base > self._seq:
                whole += await self._read(item.reply.base)
            whole.append(item)
        return whole

    async def _read(self, last: int | None = None) -> Sequence[Record]:
        limit = PAGE if last is None else min(PAGE, last - self._seq)
        records = await self._source.log.read(self._log_id, after=self._seq, limit=limit)
        if records:
            self._seq = records[-1].seq
        return records


async def follow(
    source: LogSource, log_id: LogId, *, after: int = 0, task_id: TaskId | None = None
) -> AsyncGenerator[Live, None]:
    """Yield what stands in a log after an event, then what happens, of one task or of all.

    Ends when the process stops, when the reader was too slow, or when the log was erased.
    """
    tail = LogTail(source, log_id, after=after)
    try:
        while (items := await tail.take()) is not None:
            for item in items:
                if task_id is None or _task_of(item) == task_id:
                    yield item
    finally:
        tail.close()


async def texts(
    source: LogSource,
    log_id: LogId,
    task_id: TaskId,
    rests: Callable[[TaskSuspended], Awaitable[bool]],
) -> AsyncGenerator[str, None]:
    """Yield what the agent of a task says, in pieces, until the task has ended or waits for people.

    What was said before is read from the log, so that nothing is missed however late this begins.
    A reply that a failure took back is said again from its beginning. `rests` says whether the task
    still waits where it was suspended: the log also holds questions that were answered.
    """
    saying = YieldedReply()
    async with aclosing(follow(source, log_id, task_id=task_id)) as items:
        async for item in items:
            if piece := saying.of(item):
                yield piece
            if isinstance(item, Record):
                if isinstance(item.event, TaskEnded):
                    return
                if isinstance(item.event, TaskSuspended) and await rests(item.event):
                    return


class YieldedReply:
    """What was yielded of the reply on its way, which may come live, from the log, or as both."""

    def __init__(self) -> None:
        self._base: int | None = None
        self._said = 0
        self._skip = 0
        self._has_said = False

    def of(self, item: Live) -> str:
        """Return the text that an item adds, perhaps none."""
        text = self._added(item)
        self._said += len(text)
        self._has_said = self._has_said or bool(text)
        if isinstance(item, Record) and isinstance(item.event, ReplyReceived | ReplyRestarted):
            self._base, self._said, self._skip = None, 0, 0
        return text

    def _added(self, item: Live) -> str:
        match item:
            case ReplyStarted(reply=reply) if reply.path is None:
                is_same = reply.base == self._base  # a reader that was too slow gets it again
                self._base, self._skip = reply.base, self._said if is_same else 0
                self._said = self._said if is_same else 0
            case Delta(kind=DeltaKind.TEXT, reply=reply, text=text) if reply.path is None:
                known = min(self._skip, len(text))
                self._skip -= known
                return text[known:]
            case Record(event=ReplyReceived(text=text), path=None):
                return text[self._said :]
            case Record(event=TaskEnded(content=text)) if not self._has_said:
                return text  # of a command, which no model answers
        return ""


def so_far(reply: LiveReply) -> list[Live]:
    """Return a reply on its way from its beginning, with neighbouring pieces of a kind as one."""
    items: list[Live] = [ReplyStarted(reply)]
    units, runs = 0, list[Delta]()
    for kind, text in reply.pieces:
        units += len(text)
        if runs and runs[-1].kind is kind:
            runs[-1] = Delta(reply, kind, runs[-1].text + text, units)
        else:
            runs.append(Delta(reply, kind, text, units))
    return items + runs


def _task_of(item: Live) -> TaskId | None:
    return item.task_id if isinstance(item, Record) else item.reply.task_id
