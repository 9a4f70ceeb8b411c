"""Replies that stream in another process, as items of this process's bus.

The other process writes pieces of a reply to the store while somebody follows (engine/relay). A
reader asks for pieces after its position and gets each once, in order; a piece that does not follow
the last one is left for the next read. A reply that also streams through the local bus, or that the
log has already, is passed over. Shown by tests/chat/test_remote_replies.py.
"""

from collections.abc import Sequence

from penstock.core.events.events import Record
from penstock.core.ids import LogId
from penstock.engine.bus import Delta, DeltaKind, LiveReply, ReplyStarted
from penstock.store.logs.live_text import (
    ENDS_OF_REPLIES,
    NOWHERE,
    LiveText,
    TextPiece,
    TextPosition,
)

_ALL = 2**62


class RemoteReplies:
    """One reader's position in the replies that another process streams."""

    __slots__ = ("_live_text", "_log_id", "_reply", "_spot")

    def __init__(self, live_text: LiveText, log_id: LogId) -> None:
        self._live_text = live_text
        self._log_id = log_id
        self._reply: LiveReply | None = None
        self._spot = NOWHERE

    @property
    def is_on(self) -> bool:
        """Whether a reply is streaming in another process, as far as is known."""
        return self._reply is not None

    def pass_over(self, base: int) -> None:
        """Skip a reply that the reader gets from the local bus, and all before it."""
        if base > self._spot.base:
            self._reply, self._spot = None, TextPosition(base, _ALL)

    def hear(self, records: Sequence[Record]) -> None:
        """Process events of the log; some end the streaming reply."""
        if self._reply and any(type(record.event) in ENDS_OF_REPLIES for record in records):
            self._reply = None

    async def listen(self) -> Sequence[ReplyStarted | Delta]:
        """Return the new pieces in order."""
        items: list[ReplyStarted | Delta] = []
        for piece in await self._live_text.read(self._log_id, after=self._spot):
            reply = self._reply_of(piece)
            if piece.spot.units - len(piece.text) != reply.units:
                break
            if reply is not self._reply:
                self._reply = reply
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
