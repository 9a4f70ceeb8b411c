"""Converts events to rows of the table `events` and back; stores large bodies as blobs.

Guarantees: what was written is read back equal, or StoreCorrupt names the event and the next step.
A body above `limits.body_bytes` is on disk as a blob before the row that refers to it.
"""

import shlex
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.errors import NotFound, StoreCorrupt
from penstock.core.events.codec import decode, encode, kind_of
from penstock.core.events.events import Entry, Record
from penstock.core.ids import BlobId, LogId, TaskId
from penstock.core.text import cut
from penstock.store.blobs.blobs import Blobs
from penstock.store.row_checks import is_moment, is_number

Draft = tuple[Moment, TaskId | None, CallPath | None, str, str, BlobId | None]
"""A row without its number: at, task_id, path, kind, body, blob_id.

A tuple, because the database driver takes it as it is."""
Row = tuple[int, Moment, TaskId | None, CallPath | None, str, str, BlobId | None]
"""A row as it is read: seq, then the fields of a draft."""
_BODY_OF: Callable[[Draft], str] = itemgetter(4)


class Rows:
    """Writes events as rows and reads them back."""

    def __init__(self, blobs: Blobs, body_bytes: int) -> None:
        self._blobs = blobs
        self._body_bytes = body_bytes

    def drafts(self, entries: Sequence[Entry], at: Moment) -> list[Draft]:
        """Convert entries to drafts that contain their whole bodies."""
        return [draft_of(entry, at) for entry in entries]

    def are_small(self, drafts: Sequence[Draft]) -> bool:
        """Whether every body is small enough for the table."""
        return all(map(self._is_small, map(_BODY_OF, drafts)))

    async def put_away(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Store the large bodies as blobs. Return the drafts with references to them."""
        stored: list[Draft] = []
        for at, task_id, path, kind, body, blob_id in drafts:
            if self._is_small(body):
                stored.append((at, task_id, path, kind, body, blob_id))
            else:
                large = await self._blobs.put(body.encode())
                stored.append((at, task_id, path, kind, "", large))
        return stored

    async def share(self, blobs: Iterable[BlobId]) -> None:
        """Mark blobs as shared, so that a sweep searches the events before it deletes them.

        Call it for blobs of a failed write: if the connection was lost during the commit, the
        events may be stored nevertheless.
        """
        for blob_id in blobs:
            await self._blobs.share(blob_id)

    async def records(
        self, log_id: LogId, rows: Sequence[Row], size: int | None = None
    ) -> list[Record]:
        """Convert rows to records, up to the one whose body brings the sum to `size` characters.

        Raises StoreCorrupt for a row that cannot be decoded.
        """
        records: list[Record] = []
        for row in rows:
            complete = row if row[6] is None else await self._with_body(log_id, row)
            records.append(record_of(log_id, complete))
            if size is not None and (size := size - len(complete[5])) <= 0:
                break
        return records

    async def _with_body(self, log_id: LogId, row: Row) -> Row:
        seq, at, task_id, path, kind, _, blob_id = row
        try:
            body = await self._blobs.get(BlobId(blob_id or ""))
            return seq, at, task_id, path, kind, body.decode(), None
        except (NotFound, UnicodeDecodeError) as error:
            raise StoreCorrupt(
                f"the body of event {seq} of log {log_id!r}: {error}. {advice(log_id)}",
                details={"log": log_id, "event": seq},
            ) from error

    def _is_small(self, body: str) -> bool:
        limit = self._body_bytes
        # most bodies are short ASCII texts: for them nothing is encoded
        return len(body) <= limit and (body.isascii() or len(body.encode()) <= limit)


def draft_of(entry: Entry, at: Moment) -> Draft:
    """Convert an entry to a draft that contains its whole body."""
    return at, entry.task_id, entry.path, kind_of(entry.event), encode(entry.event), None


def blobs_of(drafts: Iterable[Draft]) -> list[BlobId]:
    """Return the blobs that contain bodies of these drafts."""
    return [draft[5] for draft in drafts if draft[5] is not None]


def first_of(rows: Iterable[Row], size: int) -> Sequence[Row]:
    """Return rows up to the one whose body brings the sum to `size` characters."""
    first: list[Row] = []
    for row in rows:
        first.append(row)
        size -= len(row[5])
        if size <= 0:
            break
    return first


def records_of(log_id: LogId, rows: Sequence[Row]) -> list[Record] | None:
    """Convert rows to records; return None if some of the bodies are blobs."""
    if any(row[6] is not None for row in rows):
        return None
    return [record_of(log_id, row) for row in rows]


def check_order(log_id: LogId, rows: Sequence[Row], after: int) -> None:
    """Raise StoreCorrupt if the rows do not continue the log after `after` without gaps."""
    for seq, row in enumerate(rows, after + 1):
        if row[0] != seq:
            raise missing(log_id, seq)


REBUILD = "Run `penstock doctor --rebuild`: it makes the lists again from the logs."
"""The next step if a row of a list does not match its log."""


def advice(log_id: LogId) -> str:
    """Return the next step for a damaged log, which may be a conversation, a call or a run."""
    return (
        "Restore the database from a copy, or delete this conversation, call or run: "
        f"penstock erase --log {shlex.quote(log_id)} --yes"
    )


def head_of(log_id: LogId, stored: object) -> int | None:
    """Return the number of a log's newest event; None for an unknown log. Raises StoreCorrupt."""
    if stored is None or (isinstance(stored, int) and is_number(stored)):
        return stored
    raise StoreCorrupt(
        f"the head of log {log_id!r} is {cut(repr(stored), 40)}. {advice(log_id)}",
        details={"log": log_id},
    )


def missing(log_id: LogId, seq: int) -> StoreCorrupt:
    """Return the error for a log in which this event is missing."""
    return StoreCorrupt(
        f"event {seq} of log {log_id!r} is missing. {advice(log_id)}",
        details={"log": log_id, "event": seq},
    )


def record_of(log_id: LogId, row: Row) -> Record:
    """Convert a row that contains its body to a record. Raises StoreCorrupt."""
    seq, at, task_id, path, kind, body, _ = row
    try:
        event = decode(kind, body)
        if not (is_moment(at) and isinstance(task_id, str | None)):
            raise ValueError(f"at {cut(repr(at), 40)} in {cut(repr(task_id), 40)}")  # noqa: TRY301
    except (TypeError, ValueError) as error:
        raise StoreCorrupt(
            f"event {seq} of log {log_id!r} does not read back: {error}. {advice(log_id)}",
            details={"log": log_id, "event": seq},
        ) from error
    return Record(log_id, seq, at, task_id, path, event)
