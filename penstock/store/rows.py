"""Events as rows of their table, and back; large bodies stand in the blob store."""

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
"""A row that has no place yet: at, task_id, path, kind, body, blob_id."""
Row = tuple[int, Moment, TaskId | None, CallPath | None, str, str, BlobId | None]
"""A row as it is read: seq, and a draft."""
_BODY_OF: Callable[[Draft], str] = itemgetter(4)


class Rows:
    """Writes events as rows and reads them back."""

    def __init__(self, blobs: Blobs, body_bytes: int) -> None:
        self._blobs = blobs
        self._body_bytes = body_bytes

    def drafts(self, entries: Sequence[Entry], at: Moment) -> list[Draft]:
        """Return the entries as rows, whatever their size."""
        return [draft_of(entry, at) for entry in entries]

    def are_small(self, drafts: Sequence[Draft]) -> bool:
        """Whether every body may stand in the table."""
        return all(map(self._is_small, map(_BODY_OF, drafts)))

    async def put_away(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Put the large bodies into the blob store."""
        stored: list[Draft] = []
        for at, task_id, path, kind, body, blob_id in drafts:
            if self._is_small(body):
                stored.append((at, task_id, path, kind, body, blob_id))
            else:
                large = await self._blobs.put(body.encode())
                stored.append((at, task_id, path, kind, "", large))
        return stored

    async def share(self, blobs: Iterable[BlobId]) -> None:
        """Have events looked through before a sweep deletes blobs that none of them is to name.

        A commit whose answer was lost may have named them after all.
        """
        for blob_id in blobs:
            await self._blobs.share(blob_id)

    async def records(
        self, log_id: LogId, rows: Sequence[Row], size: int | None = None
    ) -> list[Record]:
        """Return the rows as events, up to the one with which their bodies come to that size.

        Raises StoreCorrupt for one that does not read back.
        """
        records: list[Record] = []
        for row in rows:
            whole = row if row[6] is None else await self._whole(log_id, row)
            records.append(record_of(log_id, whole))
            if size is not None and (size := size - len(whole[5])) <= 0:
                break
        return records

    async def _whole(self, log_id: LogId, row: Row) -> Row:
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
        most = self._body_bytes
        return len(body) <= most and (body.isascii() or len(body.encode()) <= most)


def draft_of(entry: Entry, at: Moment) -> Draft:
    """Return an entry as a row, whatever its size."""
    return at, entry.task_id, entry.path, kind_of(entry.event), encode(entry.event), None


def blobs_of(drafts: Iterable[Draft]) -> list[BlobId]:
    """Return the blobs in which bodies were put away."""
    return [draft[5] for draft in drafts if draft[5] is not None]


def first_of(rows: Iterable[Row], size: int) -> Sequence[Row]:
    """Return rows up to the one with which their bodies come to so many characters."""
    first: list[Row] = []
    for row in rows:
        first.append(row)
        size -= len(row[5])
        if size <= 0:
            break
    return first


def records_of(log_id: LogId, rows: Sequence[Row]) -> list[Record] | None:
    """Return the rows as events, or None: some of the bodies are in the blob store."""
    if any(row[6] is not None for row in rows):
        return None
    return [record_of(log_id, row) for row in rows]


def check_order(log_id: LogId, rows: Sequence[Row], after: int) -> None:
    """Raise StoreCorrupt if rows of a log are missing, or there twice, behind an event."""
    for wanted, row in enumerate(rows, after + 1):
        if row[0] != wanted:
            raise missing(log_id, wanted)


REBUILD = "Run `penstock doctor --rebuild`: lists are made again from the logs."
"""What to do about a row of a list that does not fit its log."""


def advice(log_id: LogId) -> str:
    """Return what to do about a damaged log, which may be a conversation, a call or a run."""
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
    """Return the error of a log in which an event is missing."""
    return StoreCorrupt(
        f"event {seq} of log {log_id!r} is missing. {advice(log_id)}",
        details={"log": log_id, "event": seq},
    )


def record_of(log_id: LogId, row: Row) -> Record:
    """Return a row whose body is at hand as an event. Raises StoreCorrupt."""
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
