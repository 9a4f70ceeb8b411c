"""What the error of a driver means for whoever wanted something stored."""

import errno
import sqlite3

from sqlalchemy.exc import DBAPIError

from penstock.core.errors import (
    OutOfResources,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
)
from penstock.core.exhaustion import exhaustion_of, is_out_of_files

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
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
"""What SQLite and libpq also say when they can open no further file or socket."""
_TRY_AGAIN = {"40001", "40P01"}
"""Postgres gave way to another transaction: serialization, deadlock."""


def failure_of(error: BaseException, place: str) -> StoreError | None:
    """Return what went wrong with the database as a whole, or None: the statement was at fault."""
    driver = driver_error(error)
    kind = _kind_of(driver)
    if kind is None:
        return exhaustion_of(error)
    if kind in _AMBIGUOUS and is_out_of_files():
        kind = OutOfResources
    text = str(driver).strip() or type(driver).__name__
    return kind(f"{(kind.__doc__ or '').strip()} {place}: {text}")


def is_full(error: BaseException | None) -> bool:
    """Whether a disk has no space left for somebody, or for this user."""
    return isinstance(error, OSError) and error.errno in FULL


def disk_failure(error: OSError, said: str) -> StoreError:
    """Return what a refusal of the disk means; `said` is what could not be done."""
    if (lack := exhaustion_of(error)) is not None:
        return lack
    kind = StoreFull if is_full(error) else StoreReadOnly
    return kind(f"{said}: {error.strerror or error}")


def is_conflict(error: BaseException) -> bool:
    """Whether another transaction was in the way, so that the same may work at once."""
    return getattr(driver_error(error), "sqlstate", None) in _TRY_AGAIN


def final_error(error: BaseException, place: str) -> BaseException:
    """Return what is told of a unit that is not tried again: after a conflict it may be, later."""
    if not is_conflict(error):
        return error
    return StoreLocked(f"{StoreLocked.__doc__} {place}: {driver_error(error)}")


def is_undecodable(error: BaseException) -> bool:
    """Whether SQLite found a text that is not UTF-8: bits of the file are not as they were."""
    driver = driver_error(error)
    return isinstance(driver, sqlite3.OperationalError) and "decode to UTF-8" in str(driver)


def driver_error(error: BaseException) -> BaseException:
    """Return what the driver itself raised."""
    return error.orig if isinstance(error, DBAPIError) and error.orig else error


def _kind_of(driver: BaseException) -> type[StoreError] | None:
    if isinstance(driver, sqlite3.Error):
        return _SQLITE.get(getattr(driver, "sqlite_errorcode", 0) & 0xFF)
    if not hasattr(driver, "sqlstate"):
        return None
    state: str | None = driver.sqlstate
    if state is None:
        return StoreError if type(driver).__name__ == "OperationalError" else None
    return _POSTGRES.get(state) or _POSTGRES.get(state[:3]) or _POSTGRES.get(state[:2])
