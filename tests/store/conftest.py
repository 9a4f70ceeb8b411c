"""An open database for each test, and what is kept in it."""

from collections.abc import AsyncIterator

import pytest

from penstock.core.limits import Limits
from penstock.store.blobs import Blobs, open_blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.sql_log import SqlLog
from penstock.testing.clock import FakeClock


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A new database, on SQLite and on Postgres."""
    opened = await open_database(database_url, synchronous="NORMAL", limits=Limits(body_bytes=200))
    yield opened
    await opened.close()


@pytest.fixture
async def sqlite(sqlite_url: str) -> AsyncIterator[Database]:
    """A new SQLite file that is not waited for, with a short queue."""
    limits = Limits(busy_seconds=0.05)
    opened = await open_database(sqlite_url, synchronous="NORMAL", limits=limits)
    opened.writer.max_queued = 3
    yield opened
    await opened.close()


@pytest.fixture
def blobs(clock: FakeClock) -> Blobs:
    return open_blobs("memory:///", clock)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(database: Database, blobs: Blobs, clock: FakeClock) -> SqlLog:
    return SqlLog(database, blobs, clock)
