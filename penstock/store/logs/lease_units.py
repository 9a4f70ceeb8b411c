"""Units of work for the writer: acquire, renew and release the leases of logs.

Guarantees: at most one process holds a log; every lease has an epoch of its own; a process death is
counted once for each log that the process held.

How it works. One conditional UPDATE acquires a released log. If the holder died, the unit first
counts that death for all logs of the dead owner (it "buries" them), then acquires its own log if
the rules of `quarantine.py` admit it next to the logs on probation. Both steps read several rows
and decide by them, so two transactions must not do this at the same time: SQLite has one writer; on
Postgres they need one advisory lock, held until the commit.

The units try that lock and do not wait for it (`pg_try_advisory_xact_lock`). The writer commits
many units together, so this transaction may have locked rows that the lock's holder needs for its
burial; waiting would be a deadlock. Rows are locked in the order of log ids, in a batch and in a
burial. Where the two together break that order, Postgres aborts one transaction and the writer
repeats it. Without the lock nothing is buried and no suspect is acquired. That loses time only: the
dead owner stays in its rows, so the next sweep finds and counts it.

Relies on: the statement `bury` names the owner, so a second burial of one owner changes nothing.

Proof: tests/store/logs/test_lease_units.py (also with the lock taken),
tests/contracts/test_lease.py and test_quarantine.py.
"""

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import Connection, literal_column, or_, select
from sqlalchemy.engine.interfaces import DBAPICursor

from penstock.core.clock import Moment
from penstock.core.errors import LeaseLost
from penstock.core.ids import LogId
from penstock.store.logs.log import PendingLog
from penstock.store.logs.quarantine import (
    SUSPECT,
    LeaseHistory,
    Quarantine,
    QuarantinedLog,
    suspect_of,
)
from penstock.store.rows import (
    Row,
    moment_or_first,
)
from penstock.store.statements import Statements
from penstock.store.tables import logs

_TRY_LOCK = "SELECT pg_try_advisory_xact_lock(7072616002)"
"""The number is arbitrary, but the same for all processes of a database."""


class AcquiredLease(NamedTuple):
    """An acquired lease and the log's state at that moment."""

    epoch: int
    head: int
    outside: int
    followed_until: int
    deaths: int = 0
    """How many processes in a row died at the current position of the log."""
    alone: int = 0
    """How many of these deaths are blamed on this log alone."""


class AcquireLease(Struct):
    """Acquire the lease. The result is the lease, the name of a live holder, or None (not yet).

    A released log costs one statement. The rules of the quarantine apply only to logs whose holder
    did not release them.
    """

    sql: Statements
    quarantine: Quarantine
    log_id: LogId
    owner: str
    now: Moment
    lease_until: int
    dead: str | None = None
    """An owner that is known to be dead."""

    def __call__(self, connection: Connection) -> AcquiredLease | str | None:
        """Acquire the log under a new epoch; bury the logs of its owner if that is dead."""
        cursor = connection.connection.cursor()
        cursor.execute(self.sql.acquire, (self.owner, self.lease_until, self.log_id))
        taken = cursor.fetchone()
        if taken is None:
            return self._after_a_death(connection)
        return AcquiredLease(*taken)

    def _after_a_death(self, connection: Connection) -> AcquiredLease | str | None:
        cursor = connection.connection.cursor()
        log = self._history(cursor)
        if log is not None and log.owner is not None:
            if log.owner != self.dead and log.lease_until > self.now:
                return log.owner
            # read again: the burial changed the row
            log = self._history(cursor) if self._bury(connection, log) else None
        if log is None or log.owner is not None or not self._is_admitted(connection, log):
            return None
        cursor.execute(
            self.sql.acquire_after_death, (self.owner, self.lease_until, self.now, self.log_id)
        )
        taken = cursor.fetchone()
        if taken is None:
            return None
        return AcquiredLease(*taken)._replace(deaths=log.deaths, alone=log.alone)

    def _bury(self, connection: Connection, log: LeaseHistory) -> bool:
        """Count the death for all logs of the owner. Return False if that must wait."""
        if not _has_lock(connection):
            return False
        cursor = connection.connection.cursor()
        cursor.execute(self.sql.held_by, (log.owner,))
        histories = {each.log_id: each for each in map(_history, cursor.fetchall())}
        held = histories | {log.log_id: log}
        cut: Sequence[LeaseHistory] = [held[log_id] for log_id in sorted(held)]
        if log.owner != self.dead:
            cut = self.quarantine.orphaned(log, cut, self.now, self.owner)
        _write(self.sql, cursor, self.quarantine.buried(cut), log.owner)
        return bool(cut)

    def _is_admitted(self, connection: Connection, log: LeaseHistory) -> bool:
        if log.deaths >= SUSPECT and not _has_lock(connection):
            return False
        cursor = connection.connection.cursor()
        cursor.execute(self.sql.on_probation, (SUSPECT if log.deaths < SUSPECT else 1, self.now))
        return self.quarantine.admits(log, list(map(_history, cursor.fetchall())))

    def _history(self, cursor: DBAPICursor) -> LeaseHistory | None:
        cursor.execute(self.sql.history, (self.log_id,))
        row = cursor.fetchone()
        return None if row is None else _history(row)


class CountDeaths(Struct):
    """Count the deaths of dead owners for all logs that they held."""

    sql: Statements
    quarantine: Quarantine
    owners: Sequence[str]

    def __call__(self, connection: Connection) -> None:
        """Free the logs; do nothing while another transaction holds the lock."""
        if not _has_lock(connection):
            return
        cursor = connection.connection.cursor()
        for owner in self.owners:
            cursor.execute(self.sql.held_by, (owner,))
            held = sorted(map(_history, cursor.fetchall()), key=attrgetter("log_id"))
            _write(self.sql, cursor, self.quarantine.buried(held), owner)


class RenewLease(Struct):
    """Extend the lease. The result is the rows after event `after`."""

    sql: Statements
    log_id: LogId
    epoch: int
    lease_until: int
    after: int
    followed_until: int = 0
    """Output: until when another process reads the live text of the log."""

    def __call__(self, connection: Connection) -> Sequence[Row]:
        """Return the new rows. Raises LeaseLost if another process holds the log, or it is gone."""
        cursor = connection.connection.cursor()
        cursor.execute(self.sql.renew, (self.lease_until, self.log_id, self.epoch))
        kept = cursor.fetchone()
        if kept is None:
            cursor.execute(self.sql.head, (self.log_id,))
            raise lost(self.log_id) if cursor.fetchone() else LeaseLost(_erased(self.log_id))
        head, self.followed_until = kept
        if head == self.after:
            return ()
        cursor.execute(self.sql.between, (self.log_id, self.after, head))
        return cursor.fetchall()


class ReleaseLease(Struct):
    """Release the lease if the log still ends at `head`; else keep it and return the new rows."""

    sql: Statements
    log_id: LogId
    epoch: int
    head: int
    wake_at: Moment | None

    def __call__(self, connection: Connection) -> Sequence[Row]:
        """Return no rows if the lease is released. Raises LeaseLost."""
        # one statement compares the head and releases: an event that arrives before it prevents the
        # release, one that arrives after it marks the log as needing a run. None is missed.
        cursor = connection.connection.cursor()
        needs_run = 0 if self.wake_at is None else 1
        key = (needs_run, self.wake_at or 0, self.log_id, self.epoch, self.head)
        cursor.execute(self.sql.release, key)
        if cursor.rowcount:
            return ()
        cursor.execute(self.sql.held_head, (self.log_id, self.epoch))
        held = cursor.fetchone()
        if held is None:
            raise lost(self.log_id)
        cursor.execute(self.sql.between, (self.log_id, self.head, held[0]))
        return cursor.fetchall()


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


def suspects(sql: Statements, connection: Connection) -> list[QuarantinedLog]:
    """Return the logs in quarantine."""
    cursor = connection.connection.cursor()
    cursor.execute(sql.suspects, (SUSPECT,))
    histories = sorted(map(_history, cursor.fetchall()), key=attrgetter("log_id"))
    return [suspect_of(each) for each in histories]


def _write(
    sql: Statements, cursor: DBAPICursor, buried: Sequence[LeaseHistory], owner: str | None
) -> None:
    for log in buried:
        counts = (log.deaths, log.cohort, log.alone, log.watch_ms)
        cursor.execute(sql.bury, (*counts, log.log_id, owner))


def _has_lock(connection: Connection) -> bool:
    """Whether this transaction alone may bury logs and admit suspects."""
    if connection.dialect.name == "sqlite":
        return True
    return bool(connection.exec_driver_sql(_TRY_LOCK).scalar())


def _history(row: Sequence[Any]) -> LeaseHistory:
    log_id, owner, lease_until, is_stuck, *counts = row
    return LeaseHistory(LogId(log_id), owner, lease_until, bool(is_stuck), *counts)


def _erased(log_id: LogId) -> str:
    return f"log {log_id!r} was erased"


def lost(log_id: LogId) -> LeaseLost:
    """Return the signal for a process that no longer holds the log."""
    return LeaseLost(f"another process holds log {log_id!r}, or an earlier append to it failed")
