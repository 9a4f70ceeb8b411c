"""Units of work that read logs and detect missing events.

Guarantees: a page has no gap, and it ends at the log's newest event unless a limit cut it. Every
read that covers the position of a lost event raises StoreCorrupt.

How it works. Events are numbered from 1 without gaps, so the numbers show a gap inside a page, and
the `head` of the log shows a lost end. The two statements do not share a snapshot: the head is read
second, so an event may have been appended between them, or the log deleted. Both cases are checked
before the log is reported as damaged.

Proof: tests/store/logs/test_read_units.py and tests/journeys/test_damaged_logs.py.
"""

from collections.abc import Collection, Sequence
from contextlib import closing

from msgspec import Struct
from sqlalchemy import Connection, literal_column, or_, select

from penstock.core.clock import Moment
from penstock.core.events.events import Record
from penstock.core.ids import LogId
from penstock.store.logs.log import PendingLog
from penstock.store.row_checks import moment_or_first
from penstock.store.rows import Row, check_order, first_of, head_of, missing, records_of
from penstock.store.statements import Statements
from penstock.store.tables import logs


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
        with closing(connection.exec_driver_sql(self.sql.page, key)) as result:
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
        count = connection.exec_driver_sql(self.sql.count, key).scalar_one()
        if count == max(self.until - self.after, 0) or not _has_log(self, connection):
            return
        seqs = connection.exec_driver_sql(self.sql.numbers, key).scalars().all()
        for seq in range(self.after + 1, self.until + 1):
            if seq > self.after + len(seqs) or seqs[seq - self.after - 1] != seq:
                raise missing(self.log_id, seq)


class ReadPending(Struct, frozen=True):
    """Read the logs that need a run and whose lease is free, expired or of a dead owner."""

    now: Moment
    dead_owners: Sequence[str]
    limit: int
    among: Collection[LogId] | None

    def __call__(self, connection: Connection) -> list[PendingLog]:
        """Return the logs, soonest first; suspects of crashes last, the longest untried first."""
        is_free = logs.c.owner.is_(None) | logs.c.owner.in_(self.dead_owners)
        columns = (logs.c.log_id, logs.c.profile_id, logs.c.wake_at)
        statement = (
            select(*columns, logs.c.recoveries, logs.c.tried_at)
            # a literal, not a parameter: the partial index over pending logs needs it
            .where(logs.c.needs_run == literal_column("1"))
            .where(or_(is_free, logs.c.lease_until <= self.now))
            .order_by(logs.c.wake_at)
            .limit(self.limit)
        )
        if self.among is not None:
            statement = statement.where(logs.c.log_id.in_(sorted(self.among)))
        rows = connection.execute(statement).all()
        rows = sorted(rows, key=lambda row: [*map(moment_or_first, (row[3], row[3] and row[4]))])
        return [
            PendingLog(log_id=row[0], profile_id=row[1], wake_at=moment_or_first(row[2]))
            for row in rows
        ]


def _has_log(unit: CheckRange, connection: Connection) -> bool:
    return connection.exec_driver_sql(unit.sql.head, (unit.log_id,)).scalar() is not None


def _check_end(sql: Statements, connection: Connection, log_id: LogId, last: int) -> None:
    """Raise StoreCorrupt if the log goes on behind what was read as its end."""
    head = head_of(log_id, connection.exec_driver_sql(sql.head, (log_id,)).scalar())
    if head is None or head <= last:
        return
    came = connection.exec_driver_sql(sql.page, (log_id, last, 1)).first()
    is_there = connection.exec_driver_sql(sql.head, (log_id,)).scalar() is not None
    if is_there and (came is None or came[0] != last + 1):
        raise missing(log_id, last + 1)
