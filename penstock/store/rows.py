"""Reads rows of the table `events` as events, and pages of a log.

Guarantees: what `logs/log_units` wrote is read back equal, or StoreCorrupt names the event and the
next step. A page has no gap, and it ends at the log's newest event unless a limit cut it. Every
read that covers the position of a lost event raises StoreCorrupt.

How it works. Events are numbered from 1 without gaps, so the numbers show a gap inside a page, and
the `head` of the log shows a lost end. The two statements do not share a snapshot: the head is read
second, so an event may have been appended between them, or the log deleted. Both cases are checked
before the log is reported as damaged. SQLite keeps any value in any column, so a damaged file can
contain text in place of a number, or a time after the year 9999. `check_columns` refuses such a row
before other code computes with it.

Proof: tests/store/test_rows.py and tests/journeys/test_damaged_logs.py.
"""

import shlex
import zlib
from collections.abc import Iterable, Sequence
from contextlib import closing

from msgspec import Struct
from sqlalchemy import Connection

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.errors import NotFound, StoreCorrupt
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.codec import decode
from penstock.core.events.events import Record
from penstock.core.events.roles import is_outside
from penstock.core.ids import BlobId, LogId, TaskId
from penstock.core.json_values.json_text import compact, exact, parse_json, without_surrogates
from penstock.core.task import Missing, TaskStatus, tasks_awaited
from penstock.core.text import cut
from penstock.store.blobs import Blobs
from penstock.store.statements import Statements

Row = tuple[int, Moment, TaskId | None, CallPath | None, str, str, BlobId | None]
"""A row as it is read: seq, at, task_id, path, kind, body, blob_id."""


class EventRows:
    """Reads rows as events."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def records(
        self,
        log_id: LogId,
        rows: Sequence[Row],
        size: int | None = None,
        parts: "Parts | None" = None,
    ) -> list[Record]:
        """Convert rows to records, up to the one whose body brings the sum to `size` characters.

        `parts` keeps the newest archived part for the next call. Raises StoreCorrupt for a row that
        cannot be decoded.
        """
        records: list[Record] = []
        opened: Parts = {} if parts is None else parts
        for row in rows:
            complete = row if row[6] is None else await self._with_body(log_id, row, opened)
            records.append(record_of(log_id, complete))
            if size is not None and (size := size - len(complete[5])) <= 0:
                break
        return records

    async def outside(self, log_id: LogId, rows: Sequence[Row]) -> list[Record]:
        """Convert rows to records, and leave out those of holders."""
        return [each for each in await self.records(log_id, rows) if is_outside(each.event)]

    async def _with_body(self, log_id: LogId, row: Row, opened: "Parts") -> Row:
        seq, at, task_id, path, kind, place, stored = row
        blob_id = BlobId(stored or "")
        try:
            if place and blob_id not in opened:
                bodies = unpacked(log_id, await self._blobs.get(blob_id))
                opened.clear()
                opened[blob_id] = bodies
            text = (
                body_at(opened[blob_id], place)
                if place
                else (await self._blobs.get(blob_id)).decode()
            )
        except (NotFound, UnicodeDecodeError) as error:
            raise StoreCorrupt(
                f"the body of event {seq} of log {log_id!r}: {error}. {advice(log_id)}",
                details={"log": log_id, "event": seq},
            ) from error
        return seq, at, task_id, path, kind, text, None


Parts = dict[str, Sequence[str]]
"""Bodies of the archived part that was read last, by the blob of the part."""


def packed(log_id: LogId, bodies: Sequence[str]) -> bytes:
    """Return the bytes of an archived part: old bodies of a log, compressed together."""
    return zlib.compress(exact({"log": log_id, "bodies": [*bodies]}).encode())


def unpacked(log_id: LogId, data: bytes) -> list[str]:
    """Return the bodies of an archived part. Raises StoreCorrupt if it is not one of this log."""
    try:
        part = parse_json(zlib.decompress(data).decode())
        if part["log"] == log_id:
            return list(part["bodies"])
    except (zlib.error, ValueError, KeyError, TypeError):
        pass
    raise StoreCorrupt(
        f"a blob does not contain archived events of log {log_id!r}. {advice(log_id)}"
    )


def body_at(bodies: Sequence[str], place: str) -> str:
    """Return the body at the place that a row names. Raises StoreCorrupt."""
    if place.isdecimal() and int(place) < len(bodies):
        return bodies[int(place)]
    raise StoreCorrupt(f"an archived part has no body {cut(place, _SHOWN)!r}")


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


REBUILD = "Run `penstock doctor --rebuild`, which rebuilds the lists from the logs."
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
            f"event {seq} of log {log_id!r} cannot be read: {error}. {advice(log_id)}",
            details={"log": log_id, "event": seq},
        ) from error
    return Record(log_id, seq, at, task_id, path, event)


_LAST_MOMENT = 253_402_300_799_999
"""The end of the year 9999."""
_LAST_NUMBER = 2**53
_SHOWN = 40


def check_columns(
    row: object, *, moments: Iterable[str], numbers: Iterable[str], texts: Iterable[str]
) -> None:
    """Raise StoreCorrupt for the first column whose value has the wrong type; None is valid."""
    kinds = (
        (moments, is_moment, "a time"),
        (numbers, is_number, "a number"),
        (texts, _is_text, "text"),
    )
    for names, is_valid, expected in kinds:
        for name in names:
            value = getattr(row, name)
            if value is not None and not is_valid(value):
                raise _wrong(name, value, expected)


def is_moment(value: object) -> bool:
    """Whether a value is a time up to the year 9999."""
    return isinstance(value, int) and 0 <= value <= _LAST_MOMENT


def is_number(value: object) -> bool:
    """Whether a value can be a number or a count of events."""
    return isinstance(value, int) and 0 <= value <= _LAST_NUMBER


def moment_or_first(value: object) -> Moment:
    """Return a time; 1970 for a value that is not one, so that it still can be sorted."""
    return Moment(value) if isinstance(value, int) and is_moment(value) else Moment(0)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _wrong(name: str, value: object, expected: str) -> StoreCorrupt:
    shown = cut(repr(value), _SHOWN)
    return StoreCorrupt(f"the column {name} must contain {expected}, found {shown}. {REBUILD}")


class ReadPage(Struct, frozen=True):
    """Read the events after one, limited by their number and optionally by their characters."""

    sql: Statements
    log_id: LogId
    after: int
    max_events: int
    max_characters: int | None = None

    def __call__(self, connection: Connection) -> tuple[list[Record] | None, Sequence[Row]]:
        """Return records, or None if a body is a blob; and the rows. Raises StoreCorrupt."""
        key = (self.log_id, self.after, self.max_events)
        with closing(connection.exec_driver_sql(self.sql.events_after, key)) as result:
            limit = self.max_characters
            rows = result.all() if limit is None else first_of(result, limit)
        check_order(self.log_id, rows, self.after)
        was_cut = len(rows) == self.max_events or (self.max_characters is not None and rows)
        if not was_cut:
            last = rows[-1][0] if rows else self.after
            _check_end(self.sql, connection, self.log_id, last)
        return records_of(self.log_id, rows), rows


class CheckRange(Struct, frozen=True):
    """Check that a range of a log is complete, without reading bodies."""

    sql: Statements
    log_id: LogId
    after: int
    until: int

    def __call__(self, connection: Connection) -> None:
        """Raise StoreCorrupt for the first missing event; an unknown log has none missing."""
        key = (self.log_id, self.after, self.until)
        count = connection.exec_driver_sql(self.sql.count_events, key).scalar_one()
        if count == max(self.until - self.after, 0) or not _has_log(self, connection):
            return
        seqs = connection.exec_driver_sql(self.sql.event_numbers, key).scalars().all()
        for seq in range(self.after + 1, self.until + 1):
            if seq > self.after + len(seqs) or seqs[seq - self.after - 1] != seq:
                raise missing(self.log_id, seq)


def _has_log(unit: CheckRange, connection: Connection) -> bool:
    return connection.exec_driver_sql(unit.sql.head, (unit.log_id,)).scalar() is not None


def _check_end(sql: Statements, connection: Connection, log_id: LogId, last: int) -> None:
    """Raise StoreCorrupt if the log continues after the last event that was read."""
    head = head_of(log_id, connection.exec_driver_sql(sql.head, (log_id,)).scalar())
    if head is None or head <= last:
        return
    # no snapshot spans the two statements: the event may have come between them, or the log may
    # have been erased. Only an event that is missing now, in a log that still exists, is lost.
    following = connection.exec_driver_sql(sql.events_after, (log_id, last, 1)).first()
    still_exists = connection.exec_driver_sql(sql.head, (log_id,)).scalar() is not None
    if still_exists and (following is None or following[0] != last + 1):
        raise missing(log_id, last + 1)


def child_row(record: Record, child: ChildRequested) -> tuple[str | int | None, ...]:
    """Return the row of a child that was requested, for the table `tasks`."""
    waits = tasks_awaited(child.join.runs)
    status = (TaskStatus.BLOCKED if waits else TaskStatus.QUEUED).value
    own = (child.profile_id, child.agent, record.at, record.seq, blocked_on(waits))
    # Databases refuse lone surrogates and NUL.
    parent, *names = (without_surrogates(text).replace("\x00", "") for text in child.place)
    return (record.task_id, record.log_id, status, *own, parent or None, *names)


def blocked_on(missing: Iterable[Missing]) -> str:
    """Return the column `blocked_on`."""
    return compact([each.to_wire() for each in missing])
