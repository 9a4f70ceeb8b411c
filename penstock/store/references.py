"""Which rows refer to bytes and to runs, and which bytes lost their last reference.

Guarantees: bytes that an event or a file released are in `loose_blobs` until they are deleted. A
row is added in the transaction that releases the bytes, and removed after their deletion, so no
crash in between forgets any.

How it works. `at` of a row says when it is due. Bytes of a removed file stay for
`LOOSE_SECONDS`, because a copy of the file may be in progress. Bytes that a person
erased have a time below zero, which is due at once. Events are searched as text: a blob's id is 64
characters that occur nowhere else, so a body that cannot be decoded still protects its blobs.

Proof: tests/store/test_references.py, tests/promises/test_interrupted_erasures.py.
"""

import re
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice
from typing import NamedTuple

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, func, or_, select

from penstock.core.clock import Moment
from penstock.core.errors import NotFound, StoreCorrupt
from penstock.core.events.child_events import CHILD, ChildRequested
from penstock.core.events.codec import decode, kind_of
from penstock.core.events.events import CallSettled, Entry, Event, MessageReceived
from penstock.core.events.flow_events import FlowRequested
from penstock.core.events.history_events import MessagesErased
from penstock.core.ids import (
    ArtifactId,
    BlobId,
    LogId,
    MessageId,
    TaskId,
    undo_id,
)
from penstock.core.profile import ADMIN, Profile
from penstock.core.task import FLOW
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.projections import plain
from penstock.store.tables import events, files, logs, loose_blobs, media, questions, tasks
from penstock.store.values.changes import drop_expired, loosen, put_for


class RunRequest(Struct, frozen=True):
    """The stored request of a run."""

    log_id: LogId
    kind: str
    body: str
    blob_id: BlobId | None
    """The blob that contains the body, if it is large."""


NAMING = ("call_settled", "message_received")
"""The kinds of events whose bodies name blobs."""
_ERASED = MessagesErased(of_task=TaskId(""), user=False, answer=False)
IS_LARGE = and_(events.c.blob_id.is_not(None), events.c.body == "")
"""The events whose body is a blob of its own. An archived body is a part of a blob; it never names
a blob, a message or a run."""
_MAX_LOGS = 250
"""Logs in one statement: SQLite refuses expressions of more than 1,000 levels."""
_BLOB_ID = re.compile(r"\b[0-9a-f]{64}\b")


def files_of(event: Event) -> set[BlobId]:
    """Return the blobs that an event names in its body."""
    match event:
        case CallSettled(files=files, artifact_blob=artifact_blob):
            named = {each.blob_id for each in files}
            return named | ({artifact_blob} if artifact_blob else set())
        case MessageReceived(attachments=attachments):
            return {each.blob_id for each in attachments}
        case _:
            return set()


def given_for(entries: Iterable[Entry]) -> set[BlobId]:
    """Return the blobs that entries and their changes name; the caller stored them before."""
    named = [files_of(each.event) for each in entries]
    changed = [put_for(each.change) for each in entries if each.change is not None]
    return set().union(*named, *changed)


def blobs_of(log_id: LogId, seen: int, connection: Connection) -> set[BlobId]:
    """Return the large bodies of a log after an event, and the blobs that small bodies name."""
    blobs: set[BlobId] = set()
    since = (events.c.log_id == log_id, events.c.seq > seen)
    for row in connection.execute(select(events).where(*since)):
        if row.blob_id:
            blobs.add(row.blob_id)
        else:
            blobs |= named_in(row.kind, row.body)
    return blobs


def lock_parts(log_id: LogId, connection: Connection) -> set[BlobId]:
    """Return the archived parts of a log; nothing is archived in it until the transaction ends."""
    connection.execute(logs.update().where(logs.c.log_id == log_id).values(head=logs.c.head))
    is_archived = and_(events.c.blob_id.is_not(None), events.c.body != "")
    parts = select(events.c.blob_id).where(events.c.log_id == log_id, is_archived).distinct()
    return {BlobId(each) for each in connection.execute(parts).scalars()}


def newest_of(log_id: LogId, connection: Connection) -> int:
    """Return the number of the newest event of a log, or 0."""
    newest = select(func.max(events.c.seq)).where(events.c.log_id == log_id)
    return connection.execute(newest).scalar() or 0


def erased_since(known: Mapping[LogId, int], connection: Connection) -> set[LogId]:
    """Return those of these logs that were deleted, or had text erased after the known event."""
    rows = iter(known.items())
    parts = iter(lambda: dict(islice(rows, _MAX_LOGS)), {})
    return set().union(*(_erased_since(part, connection) for part in parts))


def _erased_since(known: Mapping[LogId, int], connection: Connection) -> set[LogId]:
    statement = select(logs.c.log_id, logs.c.head).where(logs.c.log_id.in_(known))
    heads = {LogId(log_id): head for log_id, head in connection.execute(statement).all()}
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
    """Return the blobs that a body names, even if the body cannot be decoded."""
    if _BLOB_ID.search(body) is None:  # most bodies name none, and decoding takes ten times longer
        return set()
    try:
        return files_of(decode(kind, body))
    except ValueError:
        # too many ids are harmless: bytes that something else refers to are not deleted
        return set(map(BlobId, _BLOB_ID.findall(body)))


def is_file(blob_id: BlobId, connection: Connection) -> bool:
    """Whether a file of a workspace or a medium of a profile has these bytes."""
    kept = (files.c.size, files.c.blob_id), (media.c.size, media.c.blob_id)
    statement = [select(size).where(owner == blob_id) for size, owner in kept]
    return any(connection.execute(each.limit(1)).first() is not None for each in statement)


def is_used(blob_id: BlobId, connection: Connection) -> bool:
    """Whether an event has these bytes as body, or names them in a body that is not a blob."""
    used = or_(events.c.blob_id == blob_id, events.c.body.contains(blob_id))
    return connection.execute(select(events.c.seq).where(used).limit(1)).first() is not None


def requests_of_runs(log_ids: Collection[LogId], connection: Connection) -> list[RunRequest]:
    """Return the requests of the runs and children of these logs, and perhaps of others."""
    owners = select(logs.c.profile_id).where(logs.c.log_id.in_(log_ids)).distinct()
    first = (events.c.log_id == tasks.c.log_id, events.c.seq == tasks.c.first_seq)
    statement = select(events.c.log_id, events.c.kind, events.c.body, events.c.blob_id).where(
        tasks.c.profile_id.in_(owners), tasks.c.kind.in_((FLOW, CHILD)), *first
    )
    # a filter that saves decoding; a large body, or one with the text in another field, passes
    named = log_ids if len(log_ids) == 1 else ("waiter_log", "parent_log")
    may_be = [events.c.body.contains(each, autoescape=True) for each in named]
    statement = statement.where(or_(events.c.blob_id.is_not(None), *may_be))
    return [RunRequest(*row) for row in connection.execute(statement).all()]


def undos_of(
    log_ids: Collection[LogId], task_ids: Collection[TaskId] | None, connection: Connection
) -> set[LogId]:
    """Return the logs of the undos of these logs' tasks, or of some: they repeat their inputs."""
    query = select(tasks.c.task_id).where(tasks.c.log_id.in_(log_ids))
    if task_ids is not None:
        query = query.where(tasks.c.task_id.in_(task_ids))
    found = set[LogId]()
    for task_id in connection.execute(query).scalars().all():
        for number in count(1):
            log_id = LogId(undo_id(TaskId(task_id), number))
            if connection.execute(select(logs.c.log_id).where(logs.c.log_id == log_id)).first():
                found.add(log_id)
            else:
                break
    return found


def waiter_of(kind: str, body: str) -> tuple[LogId | None, TaskId | None]:
    """Return the log and the task of the call that requested a run or a child, if one did."""
    try:
        request = decode(kind, body)
    except ValueError:
        return None, None
    if isinstance(request, ChildRequested):
        return request.parent_log or None, request.parent or None
    if not isinstance(request, FlowRequested):
        return None, None
    return request.waiter_log, request.waiter


def has_traces(log_id: LogId, connection: Connection) -> bool:
    """Whether a row of the log is left, in the events or in a list."""
    columns = (logs.c.log_id, events.c.log_id, tasks.c.log_id, questions.c.log_id)
    statements = [select(each).where(each == log_id).limit(1) for each in columns]
    return any(connection.execute(each).first() is not None for each in statements)


LOOSE_SECONDS = 3600
"""How long unused bytes are kept, and how often they are swept: far longer than any copy of a file
takes, for which they are kept."""
SWEEP_SIZE = 500
UPLOAD = "upload"
"""The prefix of the ids of media that are uploads."""
FREED = BlobId("")
"""A marker: rows were deleted whose text is still in the files of the database."""


class LooseBlob(NamedTuple):
    """Bytes to delete, and when they lost their reference; below zero if a person erased them."""

    blob_id: BlobId
    at: int


def erased_at(now: Moment) -> Moment:
    """Return the time for bytes that a person erased now: negative, so they are due at once.

    It differs between erasures, so that `forget` after one keeps the rows of a later one.
    """
    return Moment(-now)


def release_erased(connection: Connection, blob_ids: Iterable[BlobId], due: Moment) -> None:
    """Enter the blobs that an erasure will delete, and the marker of freed rows."""
    loosen(connection, {FREED, *blob_ids}, due)


def drop_uploads(log_id: LogId, blob_ids: Collection[BlobId], connection: Connection) -> None:
    """Delete the uploads that the profile of a log made of these bytes: they are erased with it."""
    owner = select(logs.c.profile_id).where(logs.c.log_id == log_id).scalar_subquery()
    is_upload = media.c.media_id.startswith(f"{UPLOAD}_", autoescape=True)
    ids = sorted(blob_ids)
    for some in (ids[at : at + SWEEP_SIZE] for at in range(0, len(ids), SWEEP_SIZE)):
        mine = (media.c.profile_id == owner, media.c.blob_id.in_(some))
        connection.execute(media.delete().where(is_upload, *mine))


def erased(connection: Connection) -> Sequence[LooseBlob]:
    """Return the rows of erasures that are not finished."""
    statement = select(loose_blobs.c.blob_id, loose_blobs.c.at).where(loose_blobs.c.at < 0)
    return [LooseBlob(*row) for row in connection.execute(statement).all()]


def forget(loose: Sequence[LooseBlob], connection: Connection) -> None:
    """Delete rows of bytes that were handled, unless the bytes were released again meanwhile."""
    same = loose_blobs.c.blob_id == bindparam("old_id"), loose_blobs.c.at == bindparam("old_at")
    if rows := [{"old_id": each.blob_id, "old_at": each.at} for each in loose]:
        connection.execute(loose_blobs.delete().where(*same), rows)


def is_untidy(before: Moment | None, now: Moment, connection: Connection) -> bool:
    """Whether a sweep would find anything. Most find nothing, and then nothing is written."""
    loose = select(loose_blobs.c.blob_id).where(_is_due(before))
    expired = select(media.c.blob_id).where(media.c.expires_at <= now)
    return any(connection.execute(each.limit(1)).first() is not None for each in (loose, expired))


def claim_loose(before: Moment | None, now: Moment, connection: Connection) -> Sequence[BlobId]:
    """Release expired media, then claim due blobs: no other process sweeps them meanwhile."""
    drop_expired(connection, now)
    due = _is_due(before)
    some = select(loose_blobs.c.blob_id).where(due).limit(SWEEP_SIZE)
    taken = loose_blobs.update().where(due, loose_blobs.c.blob_id.in_(some)).values(at=now)
    return connection.execute(taken.returning(loose_blobs.c.blob_id)).scalars().all()


def _is_due(before: Moment | None) -> ColumnElement[bool]:
    is_blob = loose_blobs.c.blob_id != FREED
    return is_blob if before is None else and_(is_blob, loose_blobs.c.at < before)


class MessageLocation(NamedTuple):
    """The log and the task that contain a message."""

    log_id: LogId
    task_id: TaskId


class ClippedOutput(NamedTuple):
    """The stored complete text of a clipped result."""

    tool_id: str
    blob_id: BlobId
    total_characters: int


class Lookup:
    """Finds messages and artifacts by id, in the logs of a profile; with `admin` in all logs."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs

    async def find_message(
        self, message_id: MessageId, agent: str, profile: Profile
    ) -> MessageLocation | None:
        """Return the newest task with this message. Skips bodies that cannot be read."""
        its_own = and_(
            events.c.log_id == tasks.c.log_id,
            or_(events.c.seq == tasks.c.first_seq, events.c.seq == tasks.c.ended_seq),
        )
        statement = (
            select(tasks.c.log_id, tasks.c.task_id, events.c.body, events.c.blob_id)
            .join(events, its_own)
            .where(tasks.c.agent == agent, tasks.c.kind == "message", tasks.c.messages > 0)
            .where(*_own(tasks, profile))
            .order_by(tasks.c.created_at.desc(), tasks.c.first_seq.desc())
        )
        named = f'"message_id":"{plain(message_id)}"'
        small = statement.where(events.c.body.contains(named, autoescape=True)).limit(1)
        row = await self._database.read(lambda each: each.execute(small).first())
        if row is not None:
            return MessageLocation(LogId(row.log_id), TaskId(row.task_id))
        large = statement.where(IS_LARGE)
        for row in await self._database.read(lambda each: each.execute(large).all()):
            with suppress(NotFound, StoreCorrupt):
                if named.encode() in await self._blobs.get(row.blob_id):
                    return MessageLocation(LogId(row.log_id), TaskId(row.task_id))
        return None

    async def find_artifact(
        self, artifact_id: ArtifactId, profile: Profile
    ) -> ClippedOutput | None:
        """Return the blob with the complete text of a clipped result."""
        async for event in self._naming(artifact_id, profile):
            if isinstance(event, CallSettled) and event.artifact_id == artifact_id:
                return _kept(event)
        return None

    async def is_owned(self, blob_id: BlobId, profile: Profile) -> bool:
        """Whether a message or an outcome of a call in a log of the profile refers to the bytes."""
        async for event in self._naming(blob_id, profile):
            if blob_id in files_of(event):
                return True
        return False

    async def _naming(self, name: str, profile: Profile) -> AsyncGenerator[Event, None]:
        """Yield the events that may name an id. Skips those that cannot be read."""
        statement = (
            select(events.c.kind, events.c.body, events.c.blob_id)
            .join(logs, logs.c.log_id == events.c.log_id)
            .where(events.c.kind.in_(NAMING), *_own(logs, profile))
            .where(
                or_(
                    IS_LARGE,
                    events.c.body.contains(f'"{plain(name)}"', autoescape=True),
                )
            )
        )
        for row in await self._database.read(lambda each: each.execute(statement).all()):
            with suppress(ValueError, NotFound, StoreCorrupt):
                body = (await self._blobs.get(row.blob_id)).decode() if row.blob_id else row.body
                yield decode(row.kind, body)


def _own(table: Table, profile: Profile) -> list[ColumnElement[bool]]:
    """Return the condition for rows that the profile may use."""
    if profile.holds(ADMIN):
        return []
    own = [table.c.profile_id == profile.profile_id]
    return own if profile.session_id is None else [*own, table.c.log_id == profile.session_id]


def _kept(event: CallSettled) -> ClippedOutput | None:
    if event.artifact_blob is None:
        return None
    return ClippedOutput(event.tool_id, event.artifact_blob, event.total_characters or 0)
