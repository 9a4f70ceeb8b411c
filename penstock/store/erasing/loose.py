"""Bytes that an event or a file gave up: they wait here until somebody has deleted them.

A row enters in the transaction that gives the bytes up, and leaves after they are deleted, so a
crash in between forgets none. Its time says when it is due: what a file gave up stays for
`limits.loose_seconds`, because a copy of the file may be on its way; what a person erased has a
time below zero, which is due at once.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, bindparam, select

from penstock.core.clock import Moment
from penstock.core.ids import BlobId
from penstock.store.changes import drop_expired, loosen
from penstock.store.tables import loose_blobs, media

SWEPT_AT_ONCE = 500
FREED = BlobId("")
"""Stands for what deleted rows leave in the files of the database, until it is overwritten."""


class LooseBlob(NamedTuple):
    """One row: the bytes, and since when they wait."""

    blob_id: BlobId
    at: int


def erased_at(now: Moment) -> Moment:
    """Return the time of a row for bytes that a person erased now.

    It differs from one erasing to the next: who deletes the row of one leaves that of another.
    """
    return Moment(-now)


def loosen_erased(connection: Connection, blob_ids: Iterable[BlobId], due: Moment) -> None:
    """Note what an erasing is about to delete from the blob store, and that rows are freed."""
    loosen(connection, {FREED, *blob_ids}, due)


def erased(connection: Connection) -> Sequence[LooseBlob]:
    """Return what people erased and what may be there yet."""
    wanted = select(loose_blobs.c.blob_id, loose_blobs.c.at).where(loose_blobs.c.at < 0)
    return [LooseBlob(*row) for row in connection.execute(wanted).all()]


def forget(loose: Sequence[LooseBlob], connection: Connection) -> None:
    """Delete rows whose bytes were looked through, unless they were given up again since."""
    same = loose_blobs.c.blob_id == bindparam("old_id"), loose_blobs.c.at == bindparam("old_at")
    if rows := [{"old_id": each.blob_id, "old_at": each.at} for each in loose]:
        connection.execute(loose_blobs.delete().where(*same), rows)


def is_untidy(before: Moment | None, now: Moment, connection: Connection) -> bool:
    """Whether there is anything that a sweep would do: most find nothing, and write nothing."""
    loose = select(loose_blobs.c.blob_id).where(_is_due(before))
    expired = select(media.c.blob_id).where(media.c.expires_at <= now)
    return any(connection.execute(each.limit(1)).first() is not None for each in (loose, expired))


def take_loose(before: Moment | None, now: Moment, connection: Connection) -> Sequence[BlobId]:
    """Return loose blobs that nobody else takes meanwhile; what has expired is loose by this."""
    drop_expired(connection, now)
    due = _is_due(before)
    some = select(loose_blobs.c.blob_id).where(due).limit(SWEPT_AT_ONCE)
    taken = loose_blobs.update().where(due, loose_blobs.c.blob_id.in_(some)).values(at=now)
    return connection.execute(taken.returning(loose_blobs.c.blob_id)).scalars().all()


def _is_due(before: Moment | None) -> ColumnElement[bool]:
    is_blob = loose_blobs.c.blob_id != FREED
    return is_blob if before is None else and_(is_blob, loose_blobs.c.at < before)
