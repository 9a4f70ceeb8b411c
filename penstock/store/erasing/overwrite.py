"""Overwrites a task's events with their blank forms, and what lists show of them.

Each function is a unit of the transaction that erases; `blanks` says what is left of an event.
"""

from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection, Row, case, func, select

from penstock.core.errors import SessionBusy, StoreCorrupt
from penstock.core.events.codec import decode, encode, kind_of
from penstock.core.events.events import Erased, Event, MessageReceived, SessionOpened, TaskEnded
from penstock.core.ids import BlobId, LogId, ProfileId, TaskId
from penstock.core.text import one_line
from penstock.store.erasing.blanks import ErasedPart, left_of
from penstock.store.references import files_of
from penstock.store.rows import advice
from penstock.store.tables import deltas, events, sessions, tasks

ERASED_TITLE = ""
"""Lists show it as untitled."""
_OPENED = SessionOpened(profile_id=ProfileId(""), agent="", title="")


def refuse_if_busy(log_id: LogId, connection: Connection) -> None:
    """Raise SessionBusy while a task of the log is queued or at work."""
    open_tasks = select(func.count()).where(tasks.c.log_id == log_id, tasks.c.ended_seq.is_(None))
    if connection.execute(open_tasks).scalar():
        raise SessionBusy("a task of this conversation is at work; cancel it, or wait for its end")


def brief_of(
    log_id: LogId, task_id: TaskId, large: dict[BlobId, str], connection: Connection
) -> MessageReceived | None:
    """Return the message that a task answers, unless nothing is left of it."""
    own = (events.c.log_id == log_id, events.c.task_id == task_id)
    wanted = select(events).where(*own, events.c.kind == "message_received")
    for row in connection.execute(wanted).all():
        event = _event_of(row, large)
        if isinstance(event, MessageReceived):
            return event
    return None


def overwrite(
    connection: Connection,
    of_task: tuple[LogId, TaskId],
    large: dict[BlobId, str],
    wanted: ErasedPart,
) -> set[BlobId]:
    """Write the blank forms over a task's events; returns the blobs they referred to."""
    log_id, task_id = of_task
    gone: set[BlobId] = set()
    own = (events.c.log_id == log_id, events.c.task_id == task_id)
    connection.execute(
        deltas.delete().where(deltas.c.log_id == log_id, deltas.c.task_id == task_id)
    )
    removed = 0
    for row in connection.execute(select(events).where(*own)).all():
        event = _event_of(row, large)
        blank = left_of(event, wanted)
        if blank is None:
            continue
        removed += _counts(event)
        if isinstance(event, MessageReceived):
            _blank_title(connection, log_id, event.content)
        gone |= {row.blob_id} if row.blob_id else set()
        gone |= files_of(event)
        values = {"kind": kind_of(blank), "body": encode(blank), "blob_id": None}
        if type(blank) is Erased:
            values["path"] = None  # it may hold the name of a tool that a model made up
        connection.execute(events.update().where(*own, events.c.seq == row.seq).values(values))
    left = case((tasks.c.messages > removed, tasks.c.messages - removed), else_=0)
    connection.execute(tasks.update().where(tasks.c.task_id == task_id).values(messages=left))
    every = select(func.coalesce(func.sum(tasks.c.messages), 0)).where(tasks.c.log_id == log_id)
    session = sessions.update().where(sessions.c.session_id == log_id)
    connection.execute(session.values(message_count=every.scalar_subquery()))
    return gone


def _event_of(row: Row[Any], large: dict[BlobId, str]) -> Event:
    try:
        return decode(row.kind, large[row.blob_id] if row.blob_id else row.body)
    except ValueError as error:
        raise StoreCorrupt(
            f"event {row.seq} of log {row.log_id!r} does not read back: {error}. "
            f"{advice(row.log_id)}",
            details={"log": row.log_id, "event": row.seq},
        ) from error


def _blank_title(connection: Connection, log_id: LogId, content: str) -> None:
    """Take the title away if it is the beginning of the message."""
    session = sessions.c.session_id == log_id
    title = connection.execute(select(sessions.c.title).where(session)).scalar()
    if not title or not one_line(content).startswith(title.removesuffix("…")):
        return
    connection.execute(sessions.update().where(session).values(title=ERASED_TITLE))
    first = (events.c.log_id == log_id, events.c.kind == kind_of(_OPENED))
    for row in connection.execute(select(events).where(*first)).all():
        opened = decode(row.kind, row.body)
        if isinstance(opened, SessionOpened):
            body = encode(replace(opened, title=ERASED_TITLE))
            connection.execute(events.update().where(*first).values(body=body))


def _counts(event: Event) -> int:
    """Return how many messages of the conversation go with an event."""
    match event:
        case MessageReceived(message_id=message_id):
            return int(bool(message_id))
        case TaskEnded(message_id=message_id):
            return int(message_id is not None)
        case _:
            return 0
