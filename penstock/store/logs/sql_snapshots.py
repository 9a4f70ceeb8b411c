"""Snapshots of logs in the table `snapshots`: one row for each long log.

Guarantees: the contract of `Snapshots` in `log.py`. A row with a flipped byte, or one that was
copied to another log, is not returned.

How it works. The checksum covers the log, the event, the version and the bytes. A write first takes
the lock of the log's row, as every append and every erasure does, and then looks for an erasure
after the event of the snapshot: its process may not have noticed that one yet.
Proof: tests/store/logs/test_sql_snapshots.py, tests/contracts/test_snapshots.py.
"""

from hashlib import blake2b

from sqlalchemy import Connection, delete

from penstock.core.ids import LogId
from penstock.store.database import Database
from penstock.store.logs.log import StoredState
from penstock.store.statements import Statements
from penstock.store.tables import snapshots


class SqlSnapshots:
    """The newest snapshot of each log, in the database."""

    def __init__(self, database: Database, statements: Statements) -> None:
        self._database = database
        self._sql = statements

    async def read(self, log_id: LogId) -> StoredState | None:
        """Return the snapshot of a log; None if there is none, or if it is damaged."""

        def unit(connection: Connection) -> StoredState | None:
            row = connection.exec_driver_sql(self._sql.snapshot, (log_id,)).first()
            if row is None or not isinstance(row[3], bytes):
                return None
            found = StoredState(row[0], row[1], row[3])
            return found if _checksum(log_id, found) == row[2] else None

        return await self._database.read(unit)

    async def write(self, log_id: LogId, snapshot: StoredState) -> bool:
        """Replace the snapshot of a log; return False if it was refused."""
        checksum = _checksum(log_id, snapshot)

        def unit(connection: Connection) -> bool:
            cursor = connection.connection.cursor()
            cursor.execute(self._sql.lock_log, (log_id,))
            row = (log_id, snapshot.seq, snapshot.version, checksum, snapshot.body)
            cursor.execute(self._sql.add_snapshot, (*row, log_id, log_id, snapshot.seq))
            return cursor.rowcount == 1

        return await self._database.write(unit, order=log_id)


def drop_snapshots(connection: Connection, log_id: LogId | None = None) -> None:
    """Delete the snapshot of a log, or all: the next fold reads every event."""
    every = delete(snapshots)
    connection.execute(every if log_id is None else every.where(snapshots.c.log_id == log_id))


def _checksum(log_id: LogId, snapshot: StoredState) -> str:
    head = f"{log_id}\n{snapshot.seq}\n{snapshot.version}\n".encode()
    return blake2b(head + snapshot.body, digest_size=16).hexdigest()
