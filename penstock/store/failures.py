"""Translates errors of drivers and disks into errors of the store; words refusals of tasks.

Guarantees: an error of the database as a whole (disk full, connection lost, file damaged) becomes a
StoreError; an error of one statement stays what it is. The writer relies on this difference: if a
statement failed it repeats the other units of the batch, if the database failed all of them fail.

Proof: tests/store/test_failures.py.
"""

import sqlite3

from sqlalchemy.exc import DBAPIError

from penstock.core.errors import (
    NameTaken,
    OutOfResources,
    SessionBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
)
from penstock.core.exhaustion import exhaustion_of, is_out_of_files
from penstock.core.ids import LogId, TaskId

_SQLITE: dict[int, type[StoreError]] = {
    sqlite3.SQLITE_BUSY: StoreLocked,
    sqlite3.SQLITE_CANTOPEN: StoreReadOnly,
    sqlite3.SQLITE_CORRUPT: StoreCorrupt,
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_IOERR: StoreError,
    sqlite3.SQLITE_LOCKED: StoreLocked,
    sqlite3.SQLITE_NOTADB: StoreCorrupt,
    sqlite3.SQLITE_PERM: StoreReadOnly,
    sqlite3.SQLITE_READONLY: StoreReadOnly,
}
_POSTGRES: dict[str, type[StoreError]] = {
    "08": StoreError,  # the connection
    "25006": StoreReadOnly,
    "25P03": StoreError,  # idle in a transaction for too long
    "53": StoreError,  # out of memory, connections
    "53100": StoreFull,
    "55P03": StoreLocked,
    "57P": StoreError,  # shut down
    "58": StoreError,  # the system around the server
    "XX": StoreCorrupt,
}
_AMBIGUOUS = {StoreError, StoreReadOnly}
"""SQLite and libpq also report these if the process can open no further file or socket."""
_TRY_AGAIN = {"40001", "40P01"}
"""Postgres aborted this transaction in favor of another one: serialization, deadlock."""


def failure_of(error: BaseException, place: str) -> StoreError | None:
    """Return the failure of the database as a whole; None if only the statement failed."""
    driver = driver_error(error)
    kind = _kind_of(driver)
    if kind is None:
        return exhaustion_of(error)
    # asked now: by its code alone, "cannot open" may also be a missing file or a lost right
    if kind in _AMBIGUOUS and is_out_of_files():
        kind = OutOfResources
    text = str(driver).strip() or type(driver).__name__
    return kind(f"{(kind.__doc__ or '').strip()} {place}: {text}")


def is_conflict(error: BaseException) -> bool:
    """Whether another transaction caused the error, so that a repetition may succeed."""
    return getattr(driver_error(error), "sqlstate", None) in _TRY_AGAIN


def final_error(error: BaseException, place: str) -> BaseException:
    """Return the error for the caller of a unit that is not repeated any more."""
    if not is_conflict(error):
        return error
    return StoreLocked(f"{StoreLocked.__doc__} {place}: {driver_error(error)}")


def is_undecodable(error: BaseException) -> bool:
    """Whether SQLite read text that is not UTF-8, which means that the file is damaged."""
    driver = driver_error(error)
    return isinstance(driver, sqlite3.OperationalError) and "decode to UTF-8" in str(driver)


def driver_error(error: BaseException) -> BaseException:
    """Return the error that the driver raised."""
    return error.orig if isinstance(error, DBAPIError) and error.orig else error


def _kind_of(driver: BaseException) -> type[StoreError] | None:
    if isinstance(driver, sqlite3.Error):
        # extended codes have the primary one in their lowest byte
        return _SQLITE.get(getattr(driver, "sqlite_errorcode", 0) & 0xFF)
    if not hasattr(driver, "sqlstate"):
        return None
    state: str | None = driver.sqlstate
    if state is None:  # psycopg has no state if the connection failed before the server answered
        return StoreError if type(driver).__name__ == "OperationalError" else None
    return _POSTGRES.get(state) or _POSTGRES.get(state[:3]) or _POSTGRES.get(state[:2])


def task_exists(task_id: TaskId | None) -> NameTaken:
    """Return the error of an event that starts a task which exists already."""
    return NameTaken(f"the task {task_id!r} already exists; use a new id")


def queue_full(log_id: LogId, queued: int) -> SessionBusy:
    """Return the error of an event that starts a task in a log with a full queue."""
    return SessionBusy(
        f"{queued} tasks wait in {log_id!r}, which is the limit; try again when one is done"
    )
