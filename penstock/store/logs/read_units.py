"""Units of work that read a part of a log, and see whether all of it is there.

Guarantees: what is read has no gap, and it ends at the log's newest event unless it was cut by a
limit. An event that was lost is reported as StoreCorrupt, wherever it stood, to whoever reads over
its place.

How it works. Events are numbered from 1 without gaps, so a gap inside shows in the numbers, and a
lost end shows in the `head` of the log. The two statements do not share a snapshot: the head is
read second, so an event may have been appended between them, or the log deleted. Both are looked
for before the log is called damaged.

Proof: tests/store/logs/test_read_units.py and tests/journeys/test_damaged_logs.py.
"""

from collections.abc import Sequence
from contextlib import closing

from msgspec import Struct
from sqlalchemy import Connection

from penstock.core.events.events import Record
from penstock.core.ids import LogId
from penstock.store.rows import Row, check_order, first_of, head_of, missing, records_of
from penstock.store.statements import Statements


class ReadPage(Struct, frozen=True):
    """Read events of a log behind one, at most so many or up to so many characters."""

    sql: Statements
    log_id: LogId
    after: int
    most: int
    size: int | None = None

    def __call__(self, connection: Connection) -> tuple[list[Record] | None, Sequence[Row]]:
        """Return the rows, also as events if no body is elsewhere. Raises StoreCorrupt."""
        key = (self.log_id, self.after, self.most)
        with closing(connection.exec_driver_sql(self.sql.page, key)) as found:
            rows = found.all() if self.size is None else first_of(found, self.size)
        check_order(self.log_id, rows, self.after)
        was_cut = len(rows) == self.most or (self.size is not None and rows)
        if not was_cut:
            last = rows[-1][0] if rows else self.after
            _check_end(self.sql, connection, self.log_id, last)
        return records_of(self.log_id, rows), rows


class CheckRange(Struct, frozen=True):
    """See whether every event of a part of a log is there, without reading their bodies."""

    sql: Statements
    log_id: LogId
    after: int
    until: int

    def __call__(self, connection: Connection) -> None:
        """Raise StoreCorrupt for the first event that is missing; an unknown log lacks nothing."""
        key = (self.log_id, self.after, self.until)
        found = connection.exec_driver_sql(self.sql.count, key).scalar_one()
        if found == max(self.until - self.after, 0) or not _is_there(self, connection):
            return
        seqs = connection.exec_driver_sql(self.sql.numbers, key).scalars().all()
        for wanted in range(self.after + 1, self.until + 1):
            if wanted > self.after + len(seqs) or seqs[wanted - self.after - 1] != wanted:
                raise missing(self.log_id, wanted)


def _is_there(unit: CheckRange, connection: Connection) -> bool:
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
