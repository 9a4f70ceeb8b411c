"""The places where a log may live, each with everything that follows from it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.core.limits import Limits
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.log import Log
from penstock.store.projections import Projections
from penstock.store.sql_log import SqlLog
from penstock.store.sql_projections import SqlProjections
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog

LIMITS = Limits(body_bytes=200, queued_tasks=3, lease_seconds=3)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A log, its projections, and the clock that both look at."""

    log: Log
    lists: Projections
    clock: FakeClock


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    clock = FakeClock()
    if request.param == "memory":
        memory = MemoryLog(clock, LIMITS)
        yield Place(log=memory, lists=memory, clock=clock)
        return
    url = request.getfixturevalue(f"{request.param}_url")
    database = await open_database(url, synchronous="NORMAL", limits=LIMITS)
    blobs = open_blobs(str(tmp_path / "blobs"))
    log = SqlLog(database, blobs, clock)
    yield Place(log=log, lists=SqlProjections(database, blobs), clock=clock)
    await database.close()


@pytest.fixture
def log(place: Place) -> Log:
    return place.log


@pytest.fixture
def lists(place: Place) -> Projections:
    return place.lists


@pytest.fixture
def clock(place: Place) -> FakeClock:
    return place.clock
