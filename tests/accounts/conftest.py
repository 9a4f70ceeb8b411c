"""An empty installation."""

from collections.abc import AsyncIterator

import pytest

from penstock.accounts.keys import Keys
from penstock.store.database import Database, open_database
from penstock.testing.clock import FakeClock


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    """An empty database."""
    database = await open_database("sqlite://")
    yield database
    await database.close()


@pytest.fixture
def clock() -> FakeClock:
    """A clock that moves by hand."""
    return FakeClock()


@pytest.fixture
def keys(database: Database, clock: FakeClock) -> Keys:
    """The keys of an installation, none so far."""
    return Keys(database, clock)
