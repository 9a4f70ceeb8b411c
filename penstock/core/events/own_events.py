"""Events that change nothing but the task that they belong to."""

from penstock.core.events.child_events import ChildrenSpawned, TreeAsked
from penstock.core.events.events import (
    CallRetried,
    CallSettled,
    CallStarted,
    Event,
    NoteEmitted,
    PromptResolved,
    QuestionAnswered,
    QuestionAsked,
    ReplyReceived,
    ReplyRestarted,
    SecretGiven,
    StateWritten,
    TaskResumed,
    TaskSuspended,
)
from penstock.core.events.flow_events import AgentReminded, AgentStarted, FlowEvent, HandedOff
from penstock.core.events.history_events import Erased, MessagesErased, Summarised
from penstock.core.events.hook_events import HookDecided
from penstock.core.events.schedule_events import WaitExpired


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
