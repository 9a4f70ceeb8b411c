"""Separates events of subagents from those of the chat; both are in the chat's log."""

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
    """Recognizes events of subagents; it must receive every event of a task in order."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames: dict[str, None] = {}

    def has(self, event: Event, path: CallPath | None) -> bool:
        """Return whether an event belongs to a subagent; the call that started it is the chat's."""
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
        """Return whether a path is inside the frame of a subagent."""
        return any(is_below(path, frame) for frame in self._frames)
