"""What agents say and call that a chat put to work: it stands in its log, and is not its own."""

from penstock.core.call import CallPath, is_below
from penstock.core.events.events import (
    CallRetried,
    CallSettled,
    Event,
    ReplyReceived,
    ReplyRestarted,
)
from penstock.core.events.flow_events import AgentReminded, AgentStarted


class SubagentFilter:
    """Tells, event by event of one task, what is not the chat's own."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames: dict[str, None] = {}

    def has(self, event: Event, path: CallPath | None) -> bool:
        """Whether an event is about an agent in a frame; the call around it is the chat's."""
        match event:
            case AgentStarted():
                self._frames[path or ""] = None
                return True
            case ReplyReceived() | ReplyRestarted() | AgentReminded():
                return path is not None
            case CallSettled() | CallRetried() if path is not None:
                return self.covers(path)
            case _:
                return False

    def covers(self, path: CallPath) -> bool:
        """Whether something stands in the frame of an agent: the chat has no call of that name."""
        return any(is_below(path, frame) for frame in self._frames)
