"""Events of a run of a flow as its frames, with ids to come back to."""

from collections.abc import Iterable

from penstock.app.run_feed import RunFeed
from penstock.core.events.events import Record
from penstock.core.ids import TaskId
from penstock.engine.bus import Delta, Live
from penstock.server.streams.frame import Frame, Position, UnseenFrames

_EARLIER = 10**9
"""Units of the frames of an event that has several, all but the last: more than any live text."""


class RunFrames:
    """Folds what happens in a run into frames, and gives those after `last`.

    A frame has the number of its event as its id; text on its way, and all but the last frame of an
    event, are units behind the event before.
    """

    def __init__(self, task_id: TaskId, command: str, last: Position) -> None:
        self._story = RunFeed(task_id, command)
        self._last = last
        self._unseen = UnseenFrames(last)
        self._seq, self._characters = 0, 0

    @property
    def task_id(self) -> TaskId | None:
        """The run."""
        return self._story.task_id

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._story.is_over

    @property
    def is_at_work(self) -> bool:
        """Whether more is to come."""
        return not self._story.is_over

    def feed(self, items: Iterable[Live]) -> list[Frame]:
        """Take in what happened; returns what a reader has not seen of it."""
        for item in items:
            if isinstance(item, Record):
                if item.task_id == self._story.task_id:
                    self._record(item)
            elif type(item) is Delta and item.reply.task_id == self._story.task_id:
                self._say(item)
        return self._unseen.take()

    def _record(self, record: Record) -> None:
        frames = self._story.told(record)
        for number, frame in enumerate(frames, 1):
            is_last = number == len(frames)
            place = Position(record.seq) if is_last else Position(record.seq - 1, _EARLIER + number)
            self._unseen.add(place, frame)
        self._seq = record.seq
        self._characters = max(self._last.units, 0) if record.seq == self._last.seq else 0

    def _say(self, delta: Delta) -> None:
        """Show a piece of what an agent is saying: live only, the whole text comes with its end."""
        frame = self._story.said(delta, self._seq)
        if frame is None:
            return
        self._characters += len(delta.text)
        self._unseen.add(Position(self._seq, self._characters), frame)
