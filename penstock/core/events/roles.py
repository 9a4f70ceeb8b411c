"""Roles of events: from outside, written again by a restart, of a subagent, of one task alone.

An outside event needs no lease of the log: a person, a client or another task sends it. A restarted
activation writes some events again, so they do not count as progress before a death. Events of one
task alone change nothing else in the state of the session. Those of subagents are in the log of the
chat that called them. Shown by tests/core/events/test_events.py and test_roles.py.
"""

from penstock.core.call import CallPath, is_below
from penstock.core.events.child_events import FROM_OUTSIDE, ChildrenSpawned, TreeAsked
from penstock.core.events.events import (
    CallRequested,
    CallRetried,
    CallSettled,
    CallStarted,
    CancelRequested,
    Event,
    MessageReceived,
    NoteEmitted,
    PromptResolved,
    QuestionAnswered,
    QuestionAsked,
    ReplyReceived,
    ReplyRestarted,
    SecretGiven,
    SessionOpened,
    StateWritten,
    TaskBlocked,
    TaskResumed,
    TaskSuspended,
)
from penstock.core.events.flow_events import (
    AgentReminded,
    AgentStarted,
    FlowEvent,
    FlowRequested,
    HandedBack,
    HandedOff,
    RunEnded,
)
from penstock.core.events.history_events import Erased, Forked, MessagesErased, Summarised
from penstock.core.events.hook_events import HookDecided
from penstock.core.events.schedule_events import ScheduleFired, WaitExpired

_WRITTEN_AGAIN = {TaskResumed, ReplyRestarted, TaskBlocked, NoteEmitted}
REPEATED = frozenset({CallStarted, CallRetried, StateWritten, SecretGiven} | _WRITTEN_AGAIN)
"""Events that a restarted activation writes again: a death after them is at the same position."""


def is_outside(event: Event) -> bool:
    """Whether the event needs no lease: a person or a client sent it, not the holder."""
    if type(event) is QuestionAnswered:
        return event.by is not None
    return type(event) in OUTSIDE


OUTSIDE = frozenset(
    {SessionOpened, MessageReceived, CallRequested, FlowRequested, ScheduleFired, *FROM_OUTSIDE}
    | {RunEnded, CancelRequested, MessagesErased, QuestionAnswered, HandedBack, Forked}
)
"""The types of outside events. A QuestionAnswered without a person is the holder's own."""


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


def waits_for_tasks(event: Event) -> bool:
    """Whether a task that suspends waits for other tasks alone, and so for no person."""
    if not isinstance(event, TaskSuspended):
        return False
    return bool(event.joins) and not (event.questions or event.runs)


OwnEvent = (
    ReplyReceived
    | ReplyRestarted
    | CallStarted
    | CallRetried
    | CallSettled
    | StateWritten
    | NoteEmitted
    | QuestionAsked
    | QuestionAnswered
    | TaskSuspended
    | TaskResumed
    | SecretGiven
    | PromptResolved
    | HookDecided
    | Summarised
    | Erased
    | MessagesErased
    | HandedOff
    | AgentStarted
    | AgentReminded
    | FlowEvent
    | ChildrenSpawned
    | TreeAsked
    | WaitExpired
)
"""A task that is not the current one passes over them."""
