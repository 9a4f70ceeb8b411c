"""Who refers to what: the blobs that events name, and the runs that calls of a log began."""

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from msgspec import Struct
from sqlalchemy import Connection, and_, func, or_, select

from penstock.core.events.codec import decode, kind_of
from penstock.core.events.events import CallSettled, Entry, Event, MessagesErased
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import BlobId, LogId, TaskId
from penstock.core.task import FLOW
from penstock.store.changes import put_for
from penstock.store.tables import events, files, logs, media, questions, tasks


class RunRequest(Struct, frozen=True):
    """How a run was asked for, as it is stored."""

    log_id: LogId
    kind: str
    body: str
    blob_id: BlobId | None
    """Where the body is, if it is large."""


_ERASED = MessagesErased(of_task=TaskId(""), user=False, answer=False)
_AT_ONCE = 250
"""Logs in one statement: SQLite refuses expressions of more than 1,000 levels."""
_BLOB_ID = re.compile(r"\b[0-9a-f]{64}\b")


def files_of(event: Event) -> set[BlobId]:
    """Return the blobs that an event names in its body."""
    if not isinstance(event, CallSettled):
        return set()
    named = {each.blob_id for each in event.files}
    return named | ({event.artifact_blob} if event.artifact_blob else set())


def given_for(entries: Iterable[Entry]) -> set[BlobId]:
    """Return the blobs that were put for entries: those that they and their changes name."""
    named = [files_of(each.event) for each in entries]
    changed = [put_for(each.change) for each in entries if each.change is not None]
    return set().union(*named, *changed)


def blobs_of(log_id: LogId, seen: int, connection: Connection) -> set[BlobId]:
    """Return the large bodies of a log after an event, and the blobs that small bodies name."""
    found: set[BlobId] = set()
    since = (events.c.log_id == log_id, events.c.seq > seen)
    for row in connection.execute(select(events).where(*since)):
        if row.blob_id:
            found.add(row.blob_id)
        else:
            found |= named_in(row.kind, row.body)
    return found


def newest_of(log_id: LogId, connection: Connection) -> int:
    """Return the number of the newest event of a log, or 0."""
    newest = select(func.max(events.c.seq)).where(events.c.log_id == log_id)
    return connection.execute(newest).scalar() or 0


def erased_since(known: Mapping[LogId, int], connection: Connection) -> set[LogId]:
    """Return which of these logs were deleted, or lost text after the event known of each."""
    rows = iter(known.items())
    parts = iter(lambda: dict(islice(rows, _AT_ONCE)), {})
    return set().union(*(_erased_since(part, connection) for part in parts))


def _erased_since(known: Mapping[LogId, int], connection: Connection) -> set[LogId]:
    wanted = select(logs.c.log_id, logs.c.head).where(logs.c.log_id.in_(known))
    heads = {LogId(log_id): head for log_id, head in connection.execute(wanted).all()}
    gone = {log_id for log_id in known if log_id not in heads}
    newer = [
        and_(events.c.log_id == log_id, events.c.seq > known[log_id])
        for log_id, head in heads.items()
        if head > known[log_id]
    ]
    if newer:
        noted = select(events.c.log_id).where(or_(*newer), events.c.kind == kind_of(_ERASED))
        gone |= set(connection.execute(noted).scalars().all())
    return gone


def named_in(kind: str, body: str) -> set[BlobId]:
    """Return the blobs that a body names, also one that does not read back."""
    try:
        return files_of(decode(kind, body))
    except ValueError:
        return set(map(BlobId, _BLOB_ID.findall(body)))


def is_file(blob_id: BlobId, connection: Connection) -> bool:
    """Whether a workspace or a profile has the bytes."""
    kept = (files.c.size, files.c.blob_id), (media.c.size, media.c.blob_id)
    wanted = [select(size).where(owner == blob_id) for size, owner in kept]
    return any(connection.execute(each.limit(1)).first() is not None for each in wanted)


def is_used(blob_id: BlobId, connection: Connection) -> bool:
    """Whether an event is or names the bytes; large bodies are not looked into."""
    used = or_(events.c.blob_id == blob_id, events.c.body.contains(blob_id))
    return connection.execute(select(events.c.seq).where(used).limit(1)).first() is not None


def requests_of_runs(log_ids: Collection[LogId], connection: Connection) -> list[RunRequest]:
    """Return requests of runs of the profiles of some logs: those of their calls are among them."""
    owners = select(logs.c.profile_id).where(logs.c.log_id.in_(log_ids)).distinct()
    first = (events.c.log_id == tasks.c.log_id, events.c.seq == tasks.c.first_seq)
    wanted = select(events.c.log_id, events.c.kind, events.c.body, events.c.blob_id).where(
        tasks.c.profile_id.in_(owners), tasks.c.kind == FLOW, *first
    )
    named = log_ids if len(log_ids) == 1 else ("waiter_log",)
    may_be = [events.c.body.contains(each, autoescape=True) for each in named]
    wanted = wanted.where(or_(events.c.blob_id.is_not(None), *may_be))
    return [RunRequest(*row) for row in connection.execute(wanted).all()]


def waiter_of(kind: str, body: str) -> tuple[LogId | None, TaskId | None]:
    """Return the log and the task whose call began the run that a body asks for, if one did."""
    try:
        asked = decode(kind, body)
    except ValueError:
        return None, None
    return (asked.waiter_log, asked.waiter) if isinstance(asked, FlowRequested) else (None, None)


def has_traces(log_id: LogId, connection: Connection) -> bool:
    """Whether a row of the log is left in the tables that say what happened in it."""
    columns = (logs.c.log_id, events.c.log_id, tasks.c.log_id, questions.c.log_id)
    found = [select(each).where(each == log_id).limit(1) for each in columns]
    return any(connection.execute(each).first() is not None for each in found)
