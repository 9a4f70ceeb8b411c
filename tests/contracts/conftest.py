"""The places where a log may live, each with everything that follows from it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from penstock.core.limits import Limits
from penstock.resources.sql_stores import SqlFiles, SqlMedia, SqlState
from penstock.resources.state import State
from penstock.resources.workspace import Files, Media
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.logs.log import Log
from penstock.store.logs.sql_log import SqlLog
from penstock.store.projections import Projections
from penstock.store.sql_projections import SqlProjections
from penstock.store.tables import metadata
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from penstock.testing.resources import MemoryFiles, MemoryMedia, MemoryState
from tests.kit.databases import empty_database

LIMITS = Limits(
    body_bytes=200,
    queued_tasks=3,
    lease_seconds=3,
    state_value_bytes=100,
    state_entries=3,
    dispatcher_subjects=4,
    file_bytes=10,
    task_bytes=25,
    session_bytes=50,
    undo_bytes=12,
)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of this folder, and of no other, as those of implementations."""
    item.add_marker(pytest.mark.conformance)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A log, its projections, the changes made with it, and their common clock."""

    log: Log
    lists: Projections
    state: State
    files: Files
    media: Media
    clock: FakeClock


@pytest.fixture(scope="session")
def used_postgres_url(postgres: str) -> str:
    """The address of a database whose tables are there; making it takes longer than a test."""
    url = empty_database(postgres)
    asyncio.run(_make_tables(url))
    return url


@pytest.fixture
def emptied_postgres_url(used_postgres_url: str) -> str:
    """The address of the same database, with nothing in its tables."""
    emptied = [str(each.delete()) for each in metadata.sorted_tables if each.name != "installation"]
    with psycopg.connect(used_postgres_url) as connection:
        connection.execute("; ".join(emptied).encode())
    return used_postgres_url


async def _make_tables(url: str) -> None:
    await (await open_database(url)).close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def address(request: pytest.FixtureRequest) -> str | None:
    """Where the log lives; None for memory."""
    names = {"sqlite": "sqlite_url", "postgres": "emptied_postgres_url"}
    name = names.get(request.param)
    return None if name is None else str(request.getfixturevalue(name))


@pytest.fixture
async def place(address: str | None, tmp_path: Path) -> AsyncIterator[Place]:
    clock = FakeClock()
    if address is None:
        memory = MemoryLog(clock, LIMITS)
        yield Place(
            log=memory,
            lists=memory,
            state=MemoryState(memory.changes, clock),
            files=MemoryFiles(memory.changes, clock),
            media=MemoryMedia(memory.changes, clock),
            clock=clock,
        )
        return
    database = await open_database(address, synchronous="NORMAL", limits=LIMITS)
    blobs = open_blobs(str(tmp_path / "blobs"))
    log = SqlLog(database, blobs, clock)
    yield Place(
        log=log,
        lists=SqlProjections(database, blobs),
        state=SqlState(database, clock),
        files=SqlFiles(database, clock),
        media=SqlMedia(database, clock),
        clock=clock,
    )
    await database.close()


@pytest.fixture
def log(place: Place) -> Log:
    return place.log


@pytest.fixture
def lists(place: Place) -> Projections:
    return place.lists


@pytest.fixture
def state(place: Place) -> State:
    return place.state


@pytest.fixture
def files(place: Place) -> Files:
    return place.files


@pytest.fixture
def media(place: Place) -> Media:
    return place.media


@pytest.fixture
def clock(place: Place) -> FakeClock:
    return place.clock
