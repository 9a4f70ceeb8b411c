"""The meaning of a driver's errors."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from penstock.core.errors import (
    OutOfResources,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
)
from penstock.store.database import open_database
from penstock.store.failures import failure_of, is_conflict
from tests.kit.exhausted_process import no_files_left, no_threads_left

ROLLED_BACK_WITH_MORE = 3 << 8
ONE = text("SELECT 1")


def sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("said")
    error.sqlite_errorcode = code
    return error


MEANINGS = [
    (sqlite_error(sqlite3.SQLITE_FULL), StoreFull),
    (sqlite_error(sqlite3.SQLITE_BUSY), StoreLocked),
    (sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT), StoreLocked),
    (sqlite_error(sqlite3.SQLITE_READONLY | ROLLED_BACK_WITH_MORE), StoreReadOnly),
    (sqlite_error(sqlite3.SQLITE_CANTOPEN), StoreReadOnly),
    (sqlite_error(sqlite3.SQLITE_IOERR_WRITE), StoreError),
    (sqlite_error(sqlite3.SQLITE_CORRUPT), StoreCorrupt),
    (sqlite_error(sqlite3.SQLITE_NOTADB), StoreCorrupt),
    (psycopg.errors.DiskFull("said"), StoreFull),
    (psycopg.errors.ReadOnlySqlTransaction("said"), StoreReadOnly),
    (psycopg.errors.LockNotAvailable("said"), StoreLocked),
    (psycopg.errors.AdminShutdown("said"), StoreError),
    (psycopg.errors.TooManyConnections("said"), StoreError),
    (psycopg.errors.DataCorrupted("said"), StoreCorrupt),
    (psycopg.OperationalError("said"), StoreError),
]


@pytest.mark.parametrize(("error", "meaning"), MEANINGS)
def test_an_error_of_the_database_has_a_name_of_ours(
    error: Exception, meaning: type[StoreError]
) -> None:
    failure = failure_of(error, "here.db")
    assert type(failure) is meaning
    assert str(failure).endswith("here.db: said")
    assert type(failure_of(OperationalError("SELECT", {}, error), "here.db")) is meaning


AT_FAULT = [
    sqlite_error(sqlite3.SQLITE_ERROR),
    sqlite3.IntegrityError("said"),
    sqlite3.ProgrammingError("said"),
    psycopg.errors.UniqueViolation("said"),
    psycopg.errors.UndefinedTable("said"),
    psycopg.errors.DeadlockDetected("said"),
    psycopg.ProgrammingError("said"),
    ValueError("said"),
]


@pytest.mark.parametrize("error", AT_FAULT)
def test_an_error_of_a_statement_has_none(error: Exception) -> None:
    assert failure_of(error, "here.db") is None


def test_a_conflict_may_be_tried_again() -> None:
    assert is_conflict(psycopg.errors.DeadlockDetected("said"))
    assert is_conflict(OperationalError("UPDATE", {}, psycopg.errors.SerializationFailure("said")))
    assert not is_conflict(psycopg.errors.UniqueViolation("said"))
    assert not is_conflict(ValueError("said"))


@pytest.mark.parametrize("nothing_left", [no_files_left, no_threads_left])
async def test_a_read_without_resources_succeeds_later(
    tmp_path: Path, nothing_left: Callable[[], AbstractContextManager[None]]
) -> None:
    """It is not reported as a database without permission to read."""
    database = await open_database(f"sqlite:///{tmp_path / 'one.db'}")
    with nothing_left(), pytest.raises(OutOfResources):
        await database.read(lambda each: each.execute(ONE))
    assert await database.read(lambda each: each.execute(ONE).scalar()) == 1
    await database.close()


async def test_a_failed_scrub_fails_for_all_that_shared_it(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'one.db'}")
    with no_threads_left():
        done = await asyncio.gather(database.scrub(), database.scrub(), return_exceptions=True)
    assert [type(each) for each in done] == [RuntimeError, RuntimeError]
    await database.scrub()
    await database.close()
