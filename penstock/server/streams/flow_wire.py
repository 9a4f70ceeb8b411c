"""Events of a flow run as frames, with ids from which a reader can resume."""

from collections.abc import Iterable

from penstock.app.run_feed import RunFeed
from penstock.core.events.events import Record
from penstock.core.ids import TaskId
from penstock.engine.bus import Delta, Live
from penstock.server.streams.frame import Frame, Position, UnseenFrames

_EARLIER = 10**9
"""Where the units of an event's earlier frames start: above the units of any live text."""


class RunFrames:
    """Folds the events of a run into frames, and returns those after `last`.

    The last frame of an event has the event's number as its id. Live text, and the other frames of
    an event, have ids that count units after the previous event.
    """

    def __init__(self, task_id: TaskId, command: str, last: Position) -> None:
        self._feed = RunFeed(task_id, command)
        self._last = last
        self._unseen = UnseenFrames(last)
        self._seq, self._characters = 0, 0

    @property
    def task_id(self) -> TaskId | None:
        """The id of the run."""
        return self._feed.task_id

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._feed.is_over

    @property
    def is_at_work(self) -> bool:
        """Whether the run has not ended."""
        return not self._feed.is_over

    def feed(self, items: Iterable[Live]) -> list[Frame]:
        """Fold events and live text; return the frames that the reader has not seen."""
        for item in items:
            if isinstance(item, Record):
                if item.task_id == self._feed.task_id:
                    self._record(item)
            elif type(item) is Delta and item.reply.task_id == self._feed.task_id:
                self._add_text(item)
        return self._unseen.take()

    def _record(self, record: Record) -> None:
        frames = self._feed.messages_of(record)
        for number, frame in enumerate(frames, 1):
            is_last = number == len(frames)
            earlier = Position(record.seq - 1, _EARLIER + number)
            self._unseen.add(Position(record.seq) if is_last else earlier, frame)
        self._seq = record.seq
        self._characters = max(self._last.units, 0) if record.seq == self._last.seq else 0

    def _add_text(self, delta: Delta) -> None:
        """Add live text of an agent; the stored reply has the whole text later."""
        frame = self._feed.text_message(delta, self._seq)
        if frame is None:
            return
        self._characters += len(delta.text)
        self._unseen.add(Position(self._seq, self._characters), frame)
