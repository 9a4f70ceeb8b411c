"""A SQLite file for each test, in which long bodies are blobs."""

from collections.abc import AsyncIterator

import pytest

from penstock.core.limits import Limits
from penstock.store.database import Database, open_database


@pytest.fixture
async def in_a_file(sqlite_url: str) -> AsyncIterator[Database]:
    database = await open_database(sqlite_url, synchronous="NORMAL", limits=Limits(body_bytes=200))
    yield database
    await database.close()
