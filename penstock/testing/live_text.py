"""Pieces of replies that are still being written, in memory."""

from collections.abc import Callable, Sequence

from penstock.core.clock import Moment
from penstock.core.events.events import Record
from penstock.core.ids import LogId
from penstock.store.logs.log import (
    ENDS_OF_REPLIES,
    FOLLOWED_SECONDS,
    OUTPUT_KIND,
    TEXT_START,
    Followed,
    TextPiece,
    TextPosition,
)


class MemoryLiveText:
    """Pieces of replies in memory. Every reader counts as another process."""

    def __init__(self, now: Callable[[], Moment], epoch_of: Callable[[LogId], int | None]) -> None:
        self._followed_ms = int(1000 * FOLLOWED_SECONDS)
        self._now = now
        self._epoch_of = epoch_of
        """Returns the epoch of a log whose lease is held; None for other logs."""
        self._listeners: list[Followed] = []
        self._followed_until: dict[LogId, int] = {}
        self._pieces: dict[LogId, dict[TextPosition, TextPiece]] = {}

    def listen(self, listener: Followed) -> None:
        """Notify the listener about every log that another process follows."""
        self._listeners.append(listener)

    def hear(self, log_id: LogId, epoch: int) -> None:
        """Notify the listeners if this log is followed."""
        if self._followed_until and self.is_followed(log_id, epoch):
            for listener in self._listeners:
                listener(log_id, epoch)

    def is_followed(self, log_id: LogId, epoch: int) -> bool:
        """Whether the log's lease is held in this epoch, and the log is followed."""
        until = self._followed_until.get(log_id, 0)
        return until > self._now() and self._epoch_of(log_id) == epoch

    async def write(self, log_id: LogId, epoch: int, pieces: Sequence[TextPiece]) -> None:
        """Publish pieces. A typed output replaces the one before; other pieces stay unchanged."""
        if self._epoch_of(log_id) == epoch:
            published = self._pieces.setdefault(log_id, {})
            for piece in pieces:
                if piece.kind == OUTPUT_KIND or piece.spot not in published:
                    published[piece.spot] = piece

    def drop(self, log_id: LogId, records: Sequence[Record]) -> None:
        """Delete the pieces of a log if these new events end its reply."""
        if self._pieces and any(type(each.event) in ENDS_OF_REPLIES for each in records):
            self._pieces.pop(log_id, None)

    async def read(self, log_id: LogId, *, after: TextPosition = TEXT_START) -> Sequence[TextPiece]:
        """Mark a log as followed, and return its pieces after a position, in order."""
        if self._epoch_of(log_id) is not None:
            self._followed_until[log_id] = self._now() + self._followed_ms
        published = self._pieces.get(log_id, {})
        return [published[spot] for spot in sorted(published) if spot > after]
