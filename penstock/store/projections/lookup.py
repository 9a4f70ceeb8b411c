"""Where something stands that is known by its id alone."""

from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import ColumnElement, Table, and_, or_, select

from penstock.core.errors import NotFound, StoreCorrupt
from penstock.core.events.codec import decode
from penstock.core.events.events import CallSettled
from penstock.core.ids import ArtifactId, BlobId, LogId, MessageId, TaskId
from penstock.core.profile import ADMIN, Profile
from penstock.store.blobs.blobs import Blobs
from penstock.store.database import Database
from penstock.store.projections.projection_writer import plain
from penstock.store.tables import events, logs, tasks


class MessageLocation(NamedTuple):
    """Where a message stands."""

    log_id: LogId
    task_id: TaskId


class ClippedOutput(NamedTuple):
    """What was kept of a clipped result."""

    tool_id: str
    blob_id: BlobId
    total_characters: int


class Lookup:
    """Finds messages and artifacts among what a profile owns; with `admin` that is all."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs

    async def find_message(
        self, message_id: MessageId, agent: str, profile: Profile
    ) -> MessageLocation | None:
        """Return the newest task that a message of a history belongs to.

        Bytes that are lost or damaged name none.
        """
        its_own = and_(
            events.c.log_id == tasks.c.log_id,
            or_(events.c.seq == tasks.c.first_seq, events.c.seq == tasks.c.ended_seq),
        )
        wanted = (
            select(tasks.c.log_id, tasks.c.task_id, events.c.body, events.c.blob_id)
            .join(events, its_own)
            .where(tasks.c.agent == agent, tasks.c.kind == "message", tasks.c.messages > 0)
            .where(*_own(tasks, profile))
            .order_by(tasks.c.created_at.desc(), tasks.c.first_seq.desc())
        )
        named = f'"message_id":"{plain(message_id)}"'
        small = wanted.where(events.c.body.contains(named, autoescape=True)).limit(1)
        row = await self._database.read(lambda each: each.execute(small).first())
        if row is not None:
            return MessageLocation(LogId(row.log_id), TaskId(row.task_id))
        large = wanted.where(events.c.blob_id.is_not(None))
        for row in await self._database.read(lambda each: each.execute(large).all()):
            with suppress(NotFound, StoreCorrupt):
                if named.encode() in await self._blobs.get(row.blob_id):
                    return MessageLocation(LogId(row.log_id), TaskId(row.task_id))
        return None

    async def find_artifact(
        self, artifact_id: ArtifactId, profile: Profile
    ) -> ClippedOutput | None:
        """Return where the whole of a clipped result is."""
        async for event in self._outcomes(artifact_id, profile):
            if event.artifact_id == artifact_id:
                return _kept(event)
        return None

    async def is_owned(self, blob_id: BlobId, profile: Profile) -> bool:
        """Whether an outcome of a call in a log of the profile refers to the bytes."""
        async for event in self._outcomes(blob_id, profile):
            if blob_id in {event.artifact_blob, *(each.blob_id for each in event.files)}:
                return True
        return False

    async def _outcomes(self, name: str, profile: Profile) -> AsyncGenerator[CallSettled, None]:
        """Yield the outcomes of calls that may name something; one that is broken names nothing."""
        wanted = (
            select(events.c.kind, events.c.body, events.c.blob_id)
            .join(logs, logs.c.log_id == events.c.log_id)
            .where(events.c.kind == "call_settled", *_own(logs, profile))
            .where(
                or_(
                    events.c.blob_id.is_not(None),
                    events.c.body.contains(f'"{plain(name)}"', autoescape=True),
                )
            )
        )
        for row in await self._database.read(lambda each: each.execute(wanted).all()):
            with suppress(ValueError, NotFound, StoreCorrupt):
                body = (await self._blobs.get(row.blob_id)).decode() if row.blob_id else row.body
                event = decode(row.kind, body)
                if isinstance(event, CallSettled):
                    yield event


def _own(table: Table, profile: Profile) -> list[ColumnElement[bool]]:
    """Return what holds for the rows that are the profile's to use."""
    if profile.holds(ADMIN):
        return []
    own = [table.c.profile_id == profile.profile_id]
    return own if profile.session_id is None else [*own, table.c.log_id == profile.session_id]


def _kept(event: CallSettled) -> ClippedOutput | None:
    if event.artifact_blob is None:
        return None
    return ClippedOutput(event.tool_id, event.artifact_blob, event.total_characters or 0)
