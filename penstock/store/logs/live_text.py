"""What replies on their way say, for who follows a log from another process than its holder."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from penstock.core.events.events import ReplyReceived, ReplyRestarted, TaskEnded
from penstock.core.ids import LogId, TaskId

Followed = Callable[[LogId, int], None]
"""Called on the event loop with a log that is followed and its epoch, once and then again."""


class TextPosition(NamedTuple):
    """A place among all that replies of a log say: a reply, and how many units of it."""

    base: int
    units: int


NOWHERE = TextPosition(-1, -1)
ENDS_OF_REPLIES = frozenset({ReplyReceived, ReplyRestarted, TaskEnded})
"""The events with which the pieces of a reply are gone."""


class TextPiece(Struct, frozen=True, kw_only=True):
    """A part of one reply that is of one kind; the first is empty, and says that it began."""

    task_id: TaskId
    spot: TextPosition
    """Where the reply stands when this piece is said."""
    iteration: int
    closing: bool
    kind: str
    text: str


class LiveText(Protocol):
    """Pieces of replies, which are no events, on their way from one process to others.

    Contract: only the holder of a log can `write`; who holds it no more changes nothing, and is not
    told. Pieces are there until the event that makes their reply whole, takes it back or ends its
    task, and are gone with it: so what is read after the log has not been in it. Whoever reads a
    log that another process holds follows it, for `followed_seconds`; the holder hears of it when
    it takes the lease or renews it.
    """

    def listen(self, listener: Followed) -> None:
        """Tell the listener of every log held here that is followed from elsewhere."""
        ...

    def is_followed(self, log_id: LogId, epoch: int) -> bool:
        """Whether the log is held in this epoch and followed, as far as its holder heard."""
        ...

    async def write(self, log_id: LogId, epoch: int, pieces: Sequence[TextPiece]) -> None:
        """Let others read these pieces; those that are there already stay as they are."""
        ...

    async def read(self, log_id: LogId, *, after: TextPosition = NOWHERE) -> Sequence[TextPiece]:
        """Follow a log that is held elsewhere: return what is said there after a spot, in order."""
        ...
