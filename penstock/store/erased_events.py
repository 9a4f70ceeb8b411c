"""Blank forms of events: what remains after an erasure, and how it replaces the stored events.

Every kind names the half of its task that it belongs to: the user's message, or the answer with all
that tools did for it. Erasing a half replaces its events by blank forms. They hold only what a fold
and the lists need: ids, times, statuses, names of tools. A kind that is missing here is a type
error (`assert_never`), and `tests/store/test_erased_events.py` fills every field of every kind with
a word and searches for it in the blank form.
"""

from collections.abc import Sequence
from enum import Flag, auto
from typing import Any, assert_never

from msgspec.structs import replace
from sqlalchemy import Connection, Row, case, func, or_, select

from penstock.core.envelope import ErrorDetail
from penstock.core.errors import SessionBusy, StoreCorrupt
from penstock.core.events.child_events import (
    ChildrenSpawned,
    ChildRequested,
    TreeAsked,
    WaiterAdded,
)
from penstock.core.events.codec import decode, encode, kind_of
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
    HandedBack,
    HandedOff,
    RunEnded,
    StepSettled,
    StepStarted,
)
from penstock.core.events.history_events import Erased, Forked, MessagesErased, Summarised
from penstock.core.events.hook_events import HookDecided
from penstock.core.events.schedule_events import ScheduleFired, WaitExpired
from penstock.core.ids import BlobId, LogId, MessageId, ProfileId, TaskId
from penstock.core.task import EXPIRED, Question, QuestionStatus, is_withdrawn
from penstock.core.text import one_line
from penstock.store.references import IS_LARGE, files_of
from penstock.store.rows import advice
from penstock.store.tables import deltas, events, sessions, tasks

GONE = "erased"
"""Replaces the message of an error."""


class ErasedPart(Flag):
    """The halves of a task that a person can erase."""

    NONE = 0
    USER = auto()
    """The message of the person."""
    ANSWER = auto()
    """The output of the model and of tools."""


def half_of(*, user: bool, answer: bool) -> ErasedPart:
    """Return the halves to erase."""
    return (ErasedPart.USER if user else ErasedPart.NONE) | (
        ErasedPart.ANSWER if answer else ErasedPart.NONE
    )


def blank_of(event: Event, erased: ErasedPart) -> Event | None:
    """Return the blank form of an event, or None if it does not belong to these halves."""
    return _blank(event) if _half(event) & erased else None


def _half(event: Event) -> ErasedPart:
    match event:
        # later tasks read the message as the hook left it: it goes with the message alone
        case (
            (MessageReceived() | CallRequested() | FlowRequested() | FlowStarted())
            | (ScheduleFired() | WaitExpired() | ChildRequested())
            | HookDecided(method="on_input")
        ):
            return ErasedPart.USER
        case TaskStarted() if event.brief:
            return ErasedPart.USER
        case Summarised(text=""):
            # it quotes nothing, and without it old tasks would be read again
            return ErasedPart.NONE
        case PromptResolved() | HookDecided() | Summarised():
            # they may quote the message, and nothing reads them after the task
            return ErasedPart.USER | ErasedPart.ANSWER
        case (
            (ReplyReceived() | CallStarted() | CallRetried() | CallSettled() | StateWritten())
            | (SecretGiven() | NoteEmitted() | QuestionAsked() | QuestionAnswered() | TaskEnded())
            | (TaskBlocked() | StepSettled() | FlowNotified() | AgentStarted() | AgentReminded())
            | (ChildrenSpawned() | TreeAsked())
        ):
            return ErasedPart.ANSWER
        case (
            (SessionOpened() | TaskStarted() | TaskResumed() | ReplyRestarted() | SkillsSelected())
            | (TaskSuspended() | CancelRequested() | StepStarted() | RunEnded())
            | (Erased() | MessagesErased() | HandedOff() | HandedBack() | Forked())
            | WaiterAdded()
        ):
            return ErasedPart.NONE
        case _:
            assert_never(event)


def _blank(event: Event) -> Event:
    """Return the blank form of an event; for most kinds it is Erased."""
    left: Event = Erased()
    match event:
        case MessageReceived(supersedes=task_id) if task_id is not None:
            # kept: a fold drops the tasks that this message replaced
            left = replace(event, content="", message_id=MessageId(""), selected_skills=())
            left = replace(left, idempotency_key=None, request_hash=None)
            left = replace(left, attachments=(), output_schema=None, metadata=None)
            left = replace(left, model_settings=None)
        case CallRequested() | FlowRequested() | ChildRequested():
            left = _blank_request(event)
        case TaskStarted() | ChildrenSpawned() | TreeAsked():
            left = _blank_names(event)
        case FlowStarted():
            left = replace(event, task="", inputs={})
        case ScheduleFired():
            left = replace(event, name="", context=None, resume_prompt="")
        case AgentStarted():
            left = replace(event, message="", system="", charter={})
        case QuestionAsked(question=question):
            left = QuestionAsked(question=_blank_question(question))
        case QuestionAnswered():
            left = _blank_answer(event)
        case TaskEnded():
            left = replace(event, content="", message_id=None, envelope=None, output=None)
            left = replace(left, error=_blank_error(event.error))
        case _:
            pass
    return left


def _blank_names(event: TaskStarted | ChildrenSpawned | TreeAsked) -> Event:
    if isinstance(event, TreeAsked):
        kept = None if event.question is None else _blank_question(event.question)
        return replace(event, question=kept, answer=None if event.answer is None else {})
    if isinstance(event, TaskStarted):
        return replace(event, brief="")
    return ChildrenSpawned(children=event.children)


def _blank_request(
    event: CallRequested | FlowRequested | ChildRequested,
) -> CallRequested | FlowRequested | ChildRequested:
    if isinstance(event, ChildRequested):
        left = replace(event, title="", objective="", input=None, output_schema=None)
        left = replace(left, key="", batch_id="", worker_kind="", dependencies=())
        return replace(left, selected_skills=(), allowed_tools=None, working_for=())
    plain = replace(event, idempotency_key=None, request_hash=None)
    if isinstance(plain, CallRequested):
        return replace(plain, input={})
    return replace(plain, task=None, inputs={})


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
    """Keep only whether the question expired: lists distinguish that from a cancellation."""
    is_cancelled = event.status is QuestionStatus.CANCELLED
    has_expired = is_cancelled and not is_withdrawn(event.status, event.answer)
    blank = replace(event, answer=EXPIRED if has_expired else {})
    return replace(blank, idempotency_key=None, request_hash=None)


def _blank_error(error: ErrorDetail | None) -> ErrorDetail | None:
    if error is None:
        return None
    return replace(error, message=GONE, suggestion=None, details=None)


_QUOTING = (
    kind_of(Summarised()),
    kind_of(HookDecided(hook="", method="")),
)
"""The kinds that may quote other tasks than their own: summaries, and requests as hooks left them.
"""
ERASED_TITLE = ""
"""Lists show a conversation with this title as untitled."""
_OPENED = SessionOpened(profile_id=ProfileId(""), agent="", title="")


def refuse_if_busy(log_id: LogId, connection: Connection) -> None:
    """Raise SessionBusy while a task of the log has not ended."""
    open_tasks = select(func.count()).where(tasks.c.log_id == log_id, tasks.c.ended_seq.is_(None))
    if connection.execute(open_tasks).scalar():
        raise SessionBusy(
            "a task of this conversation has not ended; cancel it, or wait for its end"
        )


def large_bodies(log_id: LogId, task_id: TaskId, connection: Connection) -> Sequence[BlobId]:
    """Return the blobs with bodies that `overwrite` reads: of a task, and of what may quote it."""
    others = (*_QUOTING, kind_of(_OPENED))
    read = or_(events.c.task_id == task_id, events.c.kind.in_(others))
    large = (events.c.log_id == log_id, read, IS_LARGE)
    return connection.execute(select(events.c.blob_id).where(*large)).scalars().all()


def message_of_task(
    log_id: LogId, task_id: TaskId, large: dict[BlobId, str], connection: Connection
) -> MessageReceived | None:
    """Return the message that a task answers, unless it was erased."""
    own = (events.c.log_id == log_id, events.c.task_id == task_id)
    statement = select(events).where(*own, events.c.kind == "message_received")
    for row in connection.execute(statement).all():
        event = _event_of(row, large)
        if isinstance(event, MessageReceived):
            return event
    return None


def overwrite(
    connection: Connection,
    of_task: tuple[LogId, TaskId],
    large: dict[BlobId, str],
    erased: ErasedPart,
) -> set[BlobId]:
    """Replace a task's events by their blank forms. Return the blobs that they referred to."""
    log_id, task_id = of_task
    gone: set[BlobId] = set()
    own = (events.c.log_id == log_id, events.c.task_id == task_id)
    connection.execute(
        deltas.delete().where(deltas.c.log_id == log_id, deltas.c.task_id == task_id)
    )
    removed = 0
    gone |= _overwrite_quotes(connection, of_task, large)
    for row in connection.execute(select(events).where(*own)).all():
        event = _event_of(row, large)
        blank = blank_of(event, erased)
        if blank is None:
            continue
        removed += _message_count(event)
        if isinstance(event, MessageReceived):
            gone |= _blank_title(connection, log_id, event.content or event.file_names, large)
        gone |= {row.blob_id} if row.blob_id else set()
        gone |= files_of(event)
        values = {"kind": kind_of(blank), "body": encode(blank), "blob_id": None}
        if type(blank) is Erased:
            values["path"] = None  # it may hold the name of a tool that a model made up
        connection.execute(events.update().where(*own, events.c.seq == row.seq).values(values))
    # not below 0: an earlier erasure may have counted a message of this task already
    left = case((tasks.c.messages > removed, tasks.c.messages - removed), else_=0)
    connection.execute(tasks.update().where(tasks.c.task_id == task_id).values(messages=left))
    every = select(func.coalesce(func.sum(tasks.c.messages), 0)).where(tasks.c.log_id == log_id)
    session = sessions.update().where(sessions.c.session_id == log_id)
    connection.execute(session.values(message_count=every.scalar_subquery()))
    return gone


def _overwrite_quotes(
    connection: Connection, of_task: tuple[LogId, TaskId], large: dict[BlobId, str]
) -> set[BlobId]:
    """Erase events of any task that may quote a task. Return their blobs."""
    log_id, task_id = of_task
    gone: set[BlobId] = set()
    quoting = (events.c.log_id == log_id, events.c.kind.in_(_QUOTING))
    for row in connection.execute(select(events).where(*quoting)).all():
        if _quotes(_event_of(row, large), task_id):
            gone |= {row.blob_id} if row.blob_id else set()
            values = {"kind": kind_of(Erased()), "body": encode(Erased()), "blob_id": None}
            values["path"] = None
            connection.execute(
                events.update().where(quoting[0], events.c.seq == row.seq).values(values)
            )
    return gone


def _quotes(event: Event, task_id: TaskId) -> bool:
    """Whether an event of another task may hold a text of this one."""
    if isinstance(event, Summarised):
        return bool(event.text) and task_id in event.tasks
    # A request as a hook left it has messages of earlier tasks. All tasks have ended, and nothing
    # asks for the decisions of a task after its end.
    return isinstance(event, HookDecided) and event.method == "before_model"


def _event_of(row: Row[Any], large: dict[BlobId, str]) -> Event:
    if row.blob_id and row.blob_id not in large:
        # blobs are read before the transaction: a whole task may have come between
        raise SessionBusy("the conversation has changed meanwhile; try again")
    try:
        return decode(row.kind, large[row.blob_id] if row.blob_id else row.body)
    except ValueError as error:
        raise StoreCorrupt(
            f"event {row.seq} of log {row.log_id!r} cannot be read: {error}. {advice(row.log_id)}",
            details={"log": row.log_id, "event": row.seq},
        ) from error


def _blank_title(
    connection: Connection, log_id: LogId, heading: str, large: dict[BlobId, str]
) -> set[BlobId]:
    """Erase the title if it is the beginning of the message. Return the blobs that held it."""
    session = sessions.c.session_id == log_id
    title = connection.execute(select(sessions.c.title).where(session)).scalar()
    if not title or not one_line(heading).startswith(title.removesuffix("…")):
        return set()
    connection.execute(sessions.update().where(session).values(title=ERASED_TITLE))
    first = (events.c.log_id == log_id, events.c.kind == kind_of(_OPENED))
    gone: set[BlobId] = set()
    for row in connection.execute(select(events).where(*first)).all():
        opened = _event_of(row, large)
        if isinstance(opened, SessionOpened):
            gone |= {row.blob_id} if row.blob_id else set()
            values = {"body": encode(replace(opened, title=ERASED_TITLE)), "blob_id": None}
            connection.execute(events.update().where(*first).values(values))
    return gone


def _message_count(event: Event) -> int:
    """Return how many messages of the conversation the event is: 1 or 0."""
    match event:
        case MessageReceived(message_id=message_id):
            return int(bool(message_id))
        case TaskEnded(message_id=message_id):
            return int(message_id is not None)
        case _:
            return 0
