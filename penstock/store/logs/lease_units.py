"""Units of work for the writer: what one transaction does to the leases of logs.

Guarantees: at most one process holds a log, every lease has an epoch of its own, and a death counts
once for each log that the dead process held.

How it works. A released log is taken by one conditional UPDATE. Where a holder died, the unit first
buries all logs of that owner, then takes its own log if the rules of `quarantine.py` admit it
beside those on probation. Both read several rows and decide by them, so no two transactions may do
it at once: SQLite has one writer, and on Postgres they need one advisory lock, held until the
commit.

They try that lock and do not wait for it (`pg_try_advisory_xact_lock`). The writer commits many
units together, so this transaction may have locked rows that the one with the lock needs for its
burial; waiting would be a deadlock. Rows are locked by log id, in a batch and in a burial; where
the two together break that order Postgres ends one transaction, and the writer runs it again.
Without the lock nothing is buried and no suspect is taken. Nothing is lost by that: the dead
owner stays in its rows, so the next sweep finds and counts it. It costs that time.

Relies on: `bury` names the owner that it counts, so a burial that comes second changes nothing.

Proof: tests/store/logs/test_lease_units.py (also with the lock taken),
tests/contracts/test_lease.py and test_quarantine.py.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPICursor

from penstock.core.clock import Moment
from penstock.core.ids import LogId
from penstock.core.signals import LeaseLost
from penstock.store.logs.quarantine import (
    SUSPECT,
    LeaseHistory,
    Quarantine,
    QuarantinedLog,
    suspect_of,
)
from penstock.store.rows import Row
from penstock.store.statements import Statements, cursor_of

_TRY_LOCK = "SELECT pg_try_advisory_xact_lock(7072616002)"
"""Any number, the same for all processes of a database."""


class AcquiredLease(NamedTuple):
    """A lease that was taken, and how the log stood."""

    epoch: int
    head: int
    outside: int
    followed_until: int
    deaths: int = 0
    """Processes in a row that died at the place where it is."""
    alone: int = 0
    """How many of them are blamed on this log alone."""


class AcquireLease(Struct):
    """Take the lease; gives how the log stood, or its holder, or None when it cannot be had yet.

    A released log costs one statement. Only a log whose holder was cut is looked at
    beside others, with the rules of the quarantine.
    """

    sql: Statements
    quarantine: Quarantine
    log_id: LogId
    owner: str
    now: Moment
    lease_until: int
    dead: str | None = None
    """An owner that is known to run no more."""

    def __call__(self, connection: Connection) -> AcquiredLease | str | None:
        """Leave the log held under a new epoch, or as it was; logs of a dead owner are buried."""
        cursor = cursor_of(connection)
        cursor.execute(self.sql.take, (self.owner, self.lease_until, self.log_id))
        taken = cursor.fetchone()
        if taken is None:
            return self._after_a_cut(connection)
        return AcquiredLease(*taken)

    def _after_a_cut(self, connection: Connection) -> AcquiredLease | str | None:
        cursor = cursor_of(connection)
        log = self._standing(cursor)
        if log is not None and log.owner is not None:
            if log.owner != self.dead and log.lease_until > self.now:
                return log.owner
            log = self._standing(cursor) if self._bury(connection, log) else None
        if log is None or log.owner is not None or not self._is_admitted(connection, log):
            return None
        cursor.execute(self.sql.take_cut, (self.owner, self.lease_until, self.now, self.log_id))
        taken = cursor.fetchone()
        if taken is None:
            return None
        return AcquiredLease(*taken)._replace(deaths=log.deaths, alone=log.alone)

    def _bury(self, connection: Connection, log: LeaseHistory) -> bool:
        """Count the death for all that the owner held; False when that is not to be done now."""
        if not _may_judge(connection):
            return False
        cursor = cursor_of(connection)
        cursor.execute(self.sql.held_by, (log.owner,))
        found = {each.log_id: each for each in map(_standing, cursor.fetchall())}
        held = found | {log.log_id: log}
        cut: Sequence[LeaseHistory] = [held[log_id] for log_id in sorted(held)]
        if log.owner != self.dead:
            cut = self.quarantine.orphaned(log, cut, self.now, self.owner)
        _write(self.sql, cursor, self.quarantine.buried(cut), log.owner)
        return bool(cut)

    def _is_admitted(self, connection: Connection, log: LeaseHistory) -> bool:
        if log.deaths >= SUSPECT and not _may_judge(connection):
            return False
        cursor = cursor_of(connection)
        cursor.execute(self.sql.watched, (SUSPECT if log.deaths < SUSPECT else 1, self.now))
        return self.quarantine.admits(log, list(map(_standing, cursor.fetchall())))

    def _standing(self, cursor: DBAPICursor) -> LeaseHistory | None:
        cursor.execute(self.sql.standing, (self.log_id,))
        row = cursor.fetchone()
        return None if row is None else _standing(row)


class CountDeaths(Struct):
    """Count the deaths of owners that are known to run no more, for all that they held."""

    sql: Statements
    quarantine: Quarantine
    owners: Sequence[str]

    def __call__(self, connection: Connection) -> None:
        """Leave the logs free; nothing, while another transaction looks at such logs."""
        if not _may_judge(connection):
            return
        cursor = cursor_of(connection)
        for owner in self.owners:
            cursor.execute(self.sql.held_by, (owner,))
            held = sorted(map(_standing, cursor.fetchall()), key=attrgetter("log_id"))
            _write(self.sql, cursor, self.quarantine.buried(held), owner)


class RenewLease(Struct):
    """Keep the lease; gives what came after the event."""

    sql: Statements
    log_id: LogId
    epoch: int
    lease_until: int
    after: int
    followed_until: int = 0
    """How long the log is followed from elsewhere, when this is done."""

    def __call__(self, connection: Connection) -> Sequence[Row]:
        """Leave a lease that lasts until later; raises LeaseLost when it is another's."""
        cursor = cursor_of(connection)
        cursor.execute(self.sql.keep, (self.lease_until, self.log_id, self.epoch))
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
    """Release the lease; or keep it, and return what came after the event."""

    sql: Statements
    log_id: LogId
    epoch: int
    head: int
    wake_at: Moment | None

    def __call__(self, connection: Connection) -> Sequence[Row]:
        """Leave a log that nobody holds, with the time of its next run; or all as it was."""
        cursor = cursor_of(connection)
        needs_run = 0 if self.wake_at is None else 1
        key = (needs_run, self.wake_at or 0, self.log_id, self.epoch, self.head)
        cursor.execute(self.sql.give_back, key)
        if cursor.rowcount:
            return ()
        cursor.execute(self.sql.held_head, (self.log_id, self.epoch))
        held = cursor.fetchone()
        if held is None:
            raise lost(self.log_id)
        cursor.execute(self.sql.between, (self.log_id, self.head, held[0]))
        return cursor.fetchall()


def suspects(sql: Statements, connection: Connection) -> list[QuarantinedLog]:
    """Return the logs in quarantine."""
    cursor = cursor_of(connection)
    cursor.execute(sql.suspects, (SUSPECT,))
    found = sorted(map(_standing, cursor.fetchall()), key=attrgetter("log_id"))
    return [suspect_of(each) for each in found]


def _write(
    sql: Statements, cursor: DBAPICursor, buried: Sequence[LeaseHistory], owner: str | None
) -> None:
    for each in buried:
        counted = (each.deaths, each.cohort, each.alone, each.watch_ms)
        cursor.execute(sql.bury, (*counted, each.log_id, owner))


def _may_judge(connection: Connection) -> bool:
    """Whether this transaction alone looks at the logs of dead processes; SQLite has one writer.

    It does not wait for another one: each may have locked rows that the other needs. The next sweep
    tries again.
    """
    if connection.dialect.name == "sqlite":
        return True
    return bool(connection.exec_driver_sql(_TRY_LOCK).scalar())


def _standing(row: Sequence[Any]) -> LeaseHistory:
    log_id, owner, lease_until, is_stuck, *counts = row
    return LeaseHistory(LogId(log_id), owner, lease_until, bool(is_stuck), *counts)


def _erased(log_id: LogId) -> str:
    return f"log {log_id!r} was erased"


def lost(log_id: LogId) -> LeaseLost:
    """Return the signal for a holder that holds no more."""
    return LeaseLost(f"another process has log {log_id!r}, or what was written before was not")
