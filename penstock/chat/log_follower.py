"""Follows a log: stored events first, then live ones, in order, without gaps or duplicates.

How: LogTail subscribes to the bus before it reads the log, so that nothing falls between the two.
Every event has a `seq`: a smaller or equal one is dropped, a jump is filled from the log. While no
reply streams in this process, another one may hold the log, so the tail polls the log and the live
text in the store; it polls less often the longer nothing happens. If a burst exceeds the reader's
queue, the queue is dropped and read again from the log. A reader that does not take its items is
cut and must reconnect with its last id.

A reply may stream in another process, which writes its pieces to the store (engine/relay).
RemoteReplies reads the pieces after its position, each once and in order; a piece that does not
follow the last one is left for the next read. The typed output so far is read with them, and
yielded when it has changed. A reply that also streams through the local bus, or
that the log has already, is skipped.

Relies on: the log is the truth and the bus may drop anything; events of a log are numbered without
gaps. If a log were renumbered, or published before its commit, readers would lose events.

Shown by tests/chat/test_log_follower.py, tests/journeys/test_remote_replies.py and
tests/journeys/test_sse.py.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from msgspec import UNSET, Struct

from penstock.core.events.events import (
    Record,
)
from penstock.core.ids import LogId, TaskId
from penstock.core.json_values.json_text import parse_json
from penstock.core.limits import Limits
from penstock.engine.bus import Bus, Delta, DeltaKind, Live, LiveReply, OutputSoFar, ReplyStarted
from penstock.engine.relay import LIVE_TEXT_SECONDS
from penstock.store.logs.log import (
    ENDS_OF_REPLIES,
    FOLLOWED_SECONDS,
    OUTPUT_KIND,
    OUTPUT_UNITS,
    TEXT_START,
    LiveText,
    Log,
    TextPiece,
    TextPosition,
)


class RemoteReplies:
    """One reader's position in the replies that another process streams."""

    __slots__ = ("_live_text", "_log_id", "_output", "_reply", "_spot")

    def __init__(self, live_text: LiveText, log_id: LogId) -> None:
        self._live_text = live_text
        self._log_id = log_id
        self._reply: LiveReply | None = None
        self._spot = TEXT_START
        self._output = ""
        """The JSON of the typed output that was yielded last."""

    @property
    def is_on(self) -> bool:
        """Whether a reply is streaming in another process, as far as is known."""
        return self._reply is not None

    def pass_over(self, base: int) -> None:
        """Skip a reply that the reader gets from the local bus, and all before it."""
        if base > self._spot.base:
            self._reply, self._spot = None, TextPosition(base, OUTPUT_UNITS)

    def hear(self, records: Sequence[Record]) -> None:
        """Process events of the log; some end the streaming reply."""
        if self._reply and any(type(record.event) in ENDS_OF_REPLIES for record in records):
            self._reply = None

    async def listen(self) -> Sequence[ReplyStarted | Delta | OutputSoFar]:
        """Return the new pieces in order, then the typed output if it has changed."""
        items: list[ReplyStarted | Delta | OutputSoFar] = []
        for piece in await self._live_text.read(self._log_id, after=self._spot):
            reply = self._reply_of(piece)
            if piece.kind == OUTPUT_KIND:
                if piece.text != self._output:
                    self._output = piece.text
                    items.append(OutputSoFar(reply, parse_json(piece.text)))
                continue
            if piece.spot.units - len(piece.text) != reply.units:
                break
            if reply is not self._reply:
                self._reply, self._output = reply, ""
                items.append(ReplyStarted(reply))
            self._spot = piece.spot
            if piece.text:
                kind = DeltaKind(piece.kind)
                reply.units = piece.spot.units
                reply.pieces.append((kind, piece.text))
                items.append(Delta(reply, kind, piece.text, reply.units))
        return items

    def _reply_of(self, piece: TextPiece) -> LiveReply:
        if self._reply is not None and self._reply.base == piece.spot.base:
            return self._reply
        return LiveReply(
            self._log_id, piece.task_id, piece.spot.base, piece.iteration, piece.closing
        )


PAGE = 500
"""Events that are read from the log at once."""
MAX_STREAM_FRAMES = 256
"""How many frames a slow reader may be behind. It is disconnected then and resumes from the log, so
a larger queue only takes memory, once for each open stream."""
_SLOWEST_POLL = 4
"""In units of `limits.poll_seconds`, reached after three silent seconds."""
_QUIET_POLL = 8
"""The same, while no task is running."""


class LogSource(Struct, frozen=True, kw_only=True):
    """The log, the bus and the limits that a reader needs."""

    log: Log
    bus: Bus
    limits: Limits
    max_frames: int = MAX_STREAM_FRAMES


class LogTail:
    """One reader of a log: stored events after `after`, then live ones."""

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
        """Whether the log may hold events that were not read yet."""
        self._silence = 0.0
        self._reader = source.bus.subscribe(log_id, source.max_frames)
        self._remote = RemoteReplies(source.log.live_text, log_id)
        self.is_quiet = False
        """Set by the caller while no task is running; the log is polled less often then."""

    async def take(self) -> Sequence[Live] | None:
        """Wait for items. Empty after a long silence; None if the stream ended or was cut.

        Erasing the log also ends the stream.
        """
        if self.is_cut:
            return None
        while True:
            if self.has_more:
                items = await self.take_ready()
                if items is None or items:
                    return items
            elif not await self._reader.wait(self._patience()):
                items = await self.look()
                if items is not None:
                    return items

    @property
    def has_more(self) -> bool:
        """Whether there may be items to take now."""
        return self.is_stored or self._reader.has_news

    @property
    def is_cut(self) -> bool:
        """Whether the reader was too slow and lost items."""
        return self._reader.is_cut

    async def take_ready(self) -> Sequence[Live] | None:
        """Return the items that are ready, possibly none; None if the stream has ended."""
        if self.is_stored:
            return await self.catch_up()
        if self.is_cut:
            self._subscribe_again()
            return ()
        self._silence = 0.0
        items = self._reader.take()
        return await self._without_gaps(items) if items else None

    async def look(self) -> Sequence[Live] | None:
        """Poll for items of another process. Empty after a long silence, None after a short one."""
        limits = self._source.limits
        if self._polls and (items := await self._elsewhere()):
            self._silence = 0.0
            return items
        if self._silence >= limits.ping_seconds:
            self._silence = 0.0
            if not await self._is_erased():
                return ()
            self.stop()
        return None

    def more(self) -> "asyncio.Future[None]":
        """Return a future that resolves when there are items or it is time to poll."""
        return self._reader.begin_to_wait(self._patience())

    def stop(self) -> None:
        """End the stream: `take` returns the remaining items, then None."""
        self._reader.close()

    def close(self) -> None:
        """Unsubscribe."""
        self._reader.end_to_wait()
        self._source.bus.unsubscribe(self._log_id, self._reader)

    async def catch_up(self) -> Sequence[Live]:
        """Read the next page of the log; the last page includes the reply that is streaming."""
        records = await self._read()
        self.is_stored = len(records) == PAGE
        if self.is_stored:
            return records
        # Deltas in the queue are dropped: the streaming reply below contains them.
        queued = [item for item in self._reader.take() if isinstance(item, Record)]
        newer = await self._without_gaps(queued)
        reply = self._source.bus.reply(self._log_id)
        if reply is None:
            return [*records, *newer]
        self._remote.pass_over(reply.base)
        return [*records, *newer, *so_far(reply)]

    async def _is_erased(self) -> bool:
        """Return whether the log was erased, perhaps by another process."""
        return await self._source.log.head(self._log_id) < self._seq

    async def _elsewhere(self) -> Sequence[Live]:
        """Return events that another process wrote, then its streaming reply."""
        records = await self._read()
        self._remote.hear(records)
        if self.is_quiet or len(records) == PAGE:
            return records
        pieces = await self._remote.listen()
        return [*records, *await self._without_gaps(pieces)] if pieces else records

    def _patience(self) -> float:
        """Return how many seconds to wait for the bus, and count them as silence."""
        limits = self._source.limits
        seconds = max(limits.ping_seconds - self._silence, 0)
        if self._polls:
            polls = _QUIET_POLL if self.is_quiet else min(1 + self._silence, _SLOWEST_POLL)
            seconds = min(seconds, polls * limits.poll_seconds)
            if self._remote.is_on and self._silence < FOLLOWED_SECONDS:
                seconds = min(seconds, LIVE_TEXT_SECONDS)
        self._silence += seconds
        return seconds

    @property
    def _polls(self) -> bool:
        """Whether another process may be writing: not while a reply streams here."""
        return self._source.bus.reply(self._log_id) is None

    def _subscribe_again(self) -> None:
        self.close()
        self.is_stored = True
        self._reader = self._source.bus.subscribe(self._log_id, self._source.max_frames)

    async def _without_gaps(self, items: Sequence[Live]) -> list[Live]:
        """Return the items in order; fill gaps from the log and drop known events."""
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
    """Yield the items of a log after an event, of one task or of all.

    Ends when the process stops, the reader is too slow, or the log is erased.
    """
    tail = LogTail(source, log_id, after=after)
    try:
        while (items := await tail.take()) is not None:
            for item in items:
                if task_id is None or _task_of(item) == task_id:
                    yield item
    finally:
        tail.close()


def so_far(reply: LiveReply) -> list[Live]:
    """Return a streaming reply from its start; adjacent pieces of one kind are joined."""
    items: list[Live] = [ReplyStarted(reply)]
    units, runs = 0, list[Delta]()
    for kind, text in reply.pieces:
        units += len(text)
        if runs and runs[-1].kind is kind:
            runs[-1] = Delta(reply, kind, runs[-1].text + text, units)
        else:
            runs.append(Delta(reply, kind, text, units))
    if reply.output is not None and (partial := reply.output()) is not UNSET:
        return [*items, *runs, OutputSoFar(reply, partial)]
    return items + runs


def _task_of(item: Live) -> TaskId | None:
    return item.task_id if isinstance(item, Record) else item.reply.task_id
