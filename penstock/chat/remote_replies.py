"""What a model says in another process, as items of the bus of this one."""

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
    """One reader's part of what is said elsewhere in a log: each piece once, and none left out."""

    __slots__ = ("_live_text", "_log_id", "_reply", "_spot")

    def __init__(self, live_text: LiveText, log_id: LogId) -> None:
        self._live_text = live_text
        self._log_id = log_id
        self._reply: LiveReply | None = None
        self._spot = NOWHERE

    @property
    def is_on(self) -> bool:
        """Whether a reply is on its way elsewhere, as far as is known."""
        return self._reply is not None

    def pass_over(self, base: int) -> None:
        """Leave out a reply that is heard otherwise, and those before it."""
        if base > self._spot.base:
            self._reply, self._spot = None, TextPosition(base, _ALL)

    def hear(self, records: Sequence[Record]) -> None:
        """Take in events of the log: some end the reply that was on its way."""
        if self._reply and any(type(record.event) in ENDS_OF_REPLIES for record in records):
            self._reply = None

    async def listen(self) -> Sequence[ReplyStarted | Delta]:
        """Return what is new, in order; what is said here already is for the bus to tell."""
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
