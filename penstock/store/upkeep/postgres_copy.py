"""Copies a Postgres database as of one moment into a file of SQLite, for a backup.

Guarantees: the file has what one transaction of Postgres sees (REPEATABLE READ), in the tables of
this version. Writers of the project continue.

How it works. One reader holds the transaction and reads the tables in chunks; each chunk is a
transaction of the file. A backup of Postgres is so the same folder as one of SQLite: it is verified
and restored in the same way, and `penstock move` takes a restored file back to Postgres.

Relies on: the tables have the revision of this version; older ones are upgraded when the project is
opened. Proof: tests/store/upkeep/test_postgres_copy.py.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Table

from penstock.core.errors import ConfigError
from penstock.store.database import Database, open_database
from penstock.store.schema import MOVING, marks_of
from penstock.store.tables import REVISION
from penstock.store.upkeep.backup_folder import Progress, check_space, too_new
from penstock.store.upkeep.moving import (
    TABLES,
    Row,
    chunk,
    count_rows,
    empty,
    insert,
    place_after,
)

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_TABLES = "SELECT to_regclass('alembic_version')"
_REVISION = "SELECT version_num FROM alembic_version"
_SIZE = "SELECT pg_database_size(current_database())"
Put = Callable[[Table, Sequence[Row]], None]


async def copy_postgres(source: Database, target: Path, progress: Progress) -> None:
    """Copy all rows into a new file. Raises ConfigError, StoreTooNew, StoreFull, or a StoreError.

    ConfigError: the tables have an older revision, or a move of the database is not complete.
    """
    await asyncio.to_thread(target.unlink, missing_ok=True)
    loop = asyncio.get_running_loop()
    copy = await open_database(f"sqlite:///{target}", synchronous="NORMAL")

    def put(table: Table, rows: Sequence[Row]) -> None:
        writing = copy.write(partial(insert, table, rows))
        asyncio.run_coroutine_threadsafe(writing, loop).result()

    try:
        await copy.write(empty)
        await source.read(partial(_read_all, put, target, progress))
    finally:
        await copy.close()


def _read_all(put: Put, target: Path, progress: Progress, connection: Connection) -> None:
    """Read every table of one moment; runs in the thread of a reader."""
    connection.exec_driver_sql(_BEGIN)
    try:
        _check(target, connection)
        total, done = sum(count_rows(table, connection) for table in TABLES), 0
        for table in TABLES:
            place = None
            while rows := chunk(table, place, connection):
                put(table, rows)
                place = place_after(table, rows)
                done += len(rows)
                progress("database", done, total)
    finally:
        connection.exec_driver_sql("ROLLBACK")


def _check(target: Path, connection: Connection) -> None:
    """Raise an error unless the tables can be copied, and the disk has space for them."""
    if connection.exec_driver_sql(_TABLES).scalar() is None:
        raise ConfigError("there is no project in this database: it has no tables")
    revision = str(connection.exec_driver_sql(_REVISION).scalar_one())
    if revision > REVISION:
        raise too_new(f"the database is at revision {revision}")
    if revision < REVISION:
        raise ConfigError(
            f"the tables are at revision {revision}, and a backup of Postgres needs {REVISION}."
            " Copy it with `pg_dump --format=custom`, then open the project once: that upgrades it"
        )
    if MOVING in marks_of(connection):
        raise ConfigError("a move of this database is not complete; repeat or end it first")
    check_space(target.parent, connection.exec_driver_sql(_SIZE).scalar_one())
