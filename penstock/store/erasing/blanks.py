"""What erasing a message leaves of each kind of event.

Every kind names the half of its task that it belongs to: the user's message, or the answer with all
that tools did for it. Erasing a half replaces its events by the forms below, which hold only what a
fold and the lists cannot do without: ids, times, statuses, names of tools. A kind that is missing
here is a type error (`assert_never`), and `tests/store/erasing/test_blanks.py` fills every field of
every kind with a word and looks for it in what is left.
"""

from enum import Flag, auto
from typing import assert_never

from msgspec.structs import replace

from penstock.core.envelope import ErrorDetail
from penstock.core.events.events import (
    CallRequested,
    CallRetried,
    CallSettled,
    CallStarted,
    CancelRequested,
    Erased,
    Event,
    MessageReceived,
    MessagesErased,
    NoteEmitted,
    PromptResolved,
    QuestionAnswered,
    QuestionAsked,
    ReplyReceived,
    ReplyRestarted,
    SecretGiven,
    SessionOpened,
    SkillsSelected,
    StateWritten,
    TaskBlocked,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.flow_events import (
    AgentReminded,
    AgentStarted,
    FlowNotified,
    FlowRequested,
    FlowStarted,
    RunEnded,
    StepSettled,
    StepStarted,
)
from penstock.core.ids import MessageId
from penstock.core.task import EXPIRED, Question, QuestionStatus, is_withdrawn

GONE = "erased"
"""Stands for the message of an error."""


class ErasedPart(Flag):
    """The halves of a task that a person erases."""

    NONE = 0
    USER = auto()
    """What the person wrote."""
    ANSWER = auto()
    """What the model and the tools wrote."""


def half_of(*, user: bool, answer: bool) -> ErasedPart:
    """Return the halves that are wanted."""
    return (ErasedPart.USER if user else ErasedPart.NONE) | (
        ErasedPart.ANSWER if answer else ErasedPart.NONE
    )


def left_of(event: Event, wanted: ErasedPart) -> Event | None:
    """Return what erasing leaves of an event, or None if it does not belong to these halves."""
    return _blank(event) if _half(event) & wanted else None


def _half(event: Event) -> ErasedPart:
    match event:
        case MessageReceived() | CallRequested() | FlowRequested() | FlowStarted():
            return ErasedPart.USER
        case PromptResolved():
            # the project's script may have quoted the message, and nothing reads it after the task
            return ErasedPart.USER | ErasedPart.ANSWER
        case (
            (ReplyReceived() | CallStarted() | CallRetried() | CallSettled() | StateWritten())
            | (SecretGiven() | NoteEmitted() | QuestionAsked() | QuestionAnswered() | TaskEnded())
            | (TaskBlocked() | StepSettled() | FlowNotified() | AgentStarted() | AgentReminded())
        ):
            return ErasedPart.ANSWER
        case (
            (SessionOpened() | TaskStarted() | TaskResumed() | ReplyRestarted() | SkillsSelected())
            | (TaskSuspended() | CancelRequested() | StepStarted() | RunEnded())
            | (Erased() | MessagesErased())
        ):
            return ErasedPart.NONE
        case _:
            assert_never(event)


def _blank(event: Event) -> Event:
    """Return the blank form of an event; of most kinds nothing is left."""
    left: Event = Erased()
    match event:
        case MessageReceived(supersedes=task_id) if task_id is not None:
            # a fold drops what the message took the place of
            left = replace(event, content="", message_id=MessageId(""), selected_skills=())
            left = replace(left, idempotency_key=None, request_hash=None)
        case CallRequested():
            left = replace(event, input={}, idempotency_key=None, request_hash=None)
        case FlowRequested():
            left = replace(event, task=None, inputs={}, idempotency_key=None, request_hash=None)
        case FlowStarted():
            left = replace(event, task="", inputs={})
        case AgentStarted():
            left = replace(event, message="", system="", charter={})
        case QuestionAsked(question=question):
            left = QuestionAsked(question=_blank_question(question))
        case QuestionAnswered():
            left = _blank_answer(event)
        case TaskEnded():
            left = replace(event, content="", message_id=None, envelope=None)
            left = replace(left, error=_blank_error(event.error))
        case _:
            pass
    return left


def _blank_question(question: Question) -> Question:
    return Question(
        question_id=question.question_id,
        kind=question.kind,
        text="",
        path=question.path,
        tool_id=question.tool_id,
        expires_at=question.expires_at,
    )


def _blank_answer(event: QuestionAnswered) -> QuestionAnswered:
    """Keep only whether the time for an answer was over: lists tell that from a withdrawal."""
    is_over = event.status is QuestionStatus.CANCELLED
    has_expired = is_over and not is_withdrawn(event.status, event.answer)
    blank = replace(event, answer=EXPIRED if has_expired else {})
    return replace(blank, idempotency_key=None, request_hash=None)


def _blank_error(error: ErrorDetail | None) -> ErrorDetail | None:
    if error is None:
        return None
    return replace(error, message=GONE, suggestion=None, details=None)
