"""What replies on their way say, in memory."""

from collections.abc import Callable, Sequence

from penstock.core.clock import Moment
from penstock.core.events.events import Record
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.store.logs.live_text import (
    ENDS_OF_REPLIES,
    NOWHERE,
    Followed,
    TextPiece,
    TextPosition,
)


class MemoryLiveText:
    """Pieces of replies in memory; who reads them is always taken for another process."""

    def __init__(
        self, limits: Limits, now: Callable[[], Moment], epoch_of: Callable[[LogId], int | None]
    ) -> None:
        self._followed_ms = int(1000 * limits.followed_seconds)
        self._now = now
        self._epoch_of = epoch_of
        """The epoch of a log that is held."""
        self._listeners: list[Followed] = []
        self._followed_until: dict[LogId, int] = {}
        self._pieces: dict[LogId, dict[TextPosition, TextPiece]] = {}

    def listen(self, listener: Followed) -> None:
        """Tell the listener of every log that is followed from elsewhere."""
        self._listeners.append(listener)

    def hear(self, log_id: LogId, epoch: int) -> None:
        """Let the holder know if its log is followed."""
        if self._followed_until and self.is_followed(log_id, epoch):
            for listener in self._listeners:
                listener(log_id, epoch)

    def is_followed(self, log_id: LogId, epoch: int) -> bool:
        """Whether the log is held in this epoch, and followed."""
        until = self._followed_until.get(log_id, 0)
        return until > self._now() and self._epoch_of(log_id) == epoch

    async def write(self, log_id: LogId, epoch: int, pieces: Sequence[TextPiece]) -> None:
        """Let others read these pieces; those that are there already stay as they are."""
        if self._epoch_of(log_id) == epoch:
            said = self._pieces.setdefault(log_id, {})
            for piece in pieces:
                said.setdefault(piece.spot, piece)

    def drop(self, log_id: LogId, records: Sequence[Record]) -> None:
        """Forget what is said in a log, if these new events end its reply."""
        if self._pieces and any(type(each.event) in ENDS_OF_REPLIES for each in records):
            self._pieces.pop(log_id, None)

    async def read(self, log_id: LogId, *, after: TextPosition = NOWHERE) -> Sequence[TextPiece]:
        """Follow a log: return what is said there after a spot, in order."""
        if self._epoch_of(log_id) is not None:
            self._followed_until[log_id] = self._now() + self._followed_ms
        said = self._pieces.get(log_id, {})
        return [said[spot] for spot in sorted(said) if spot > after]
