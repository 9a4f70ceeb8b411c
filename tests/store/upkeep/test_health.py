"""Stuck leases, orphan blobs and wrong clocks are found, and mended where that is safe."""

import os
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from penstock.core.ids import BlobId
from penstock.store.blobs import Blobs, open_blobs
from penstock.store.database import Database
from penstock.store.logs.owners import this_process
from penstock.store.logs.sql_log import SqlLog
from penstock.store.upkeep.health import (
    LeaseProblem,
    collect_orphans,
    expire,
    orphans,
    skew,
    stuck_leases,
)
from penstock.store.values.changes import loosen
from penstock.testing.clock import FakeClock, settle
from tests.kit.log_entries import CHAT, held, note

DAY = 24 * 3600


def do(statement: str, connection: Connection) -> None:
    connection.execute(text(statement))


class PatientClock(FakeClock):
    """A clock that moves when somebody waits, after an action."""

    def __init__(self, clock: FakeClock, action: object = None) -> None:
        super().__init__(clock.now())
        self._action = action

    async def sleep(self, seconds: float) -> None:
        """Run the action and move on."""
        self.advance(seconds)
        if callable(self._action):
            await self._action()


SECONDS = [
    (0, 1, None),
    (3, 1, None),
    (60, 1, LeaseProblem.FUTURE),
    (60, 0, LeaseProblem.FUTURE),
    (-59, 0, None),
    (-61, 1, LeaseProblem.LATE),
    (-61, 0, LeaseProblem.IDLE),
]


@pytest.mark.parametrize(("seconds", "needs_run", "problem"), SECONDS)
async def test_a_lease_is_stuck_far_in_the_future_or_long_after_its_end(
    seconds: int,
    needs_run: int,
    problem: LeaseProblem | None,
    database: Database,
    log: SqlLog,
    clock: FakeClock,
) -> None:
    await held(log)
    until = clock.now() + 1000 * seconds
    damage = f"UPDATE logs SET lease_until = {until}, needs_run = {needs_run}"  # noqa: S608
    await database.write(partial(do, damage))
    found = await stuck_leases(database, clock)
    assert [(each.log_id, each.problem) for each in found] == (
        [] if problem is None else [(CHAT, problem)]
    )


async def test_a_dead_owner_is_named_as_such(
    database: Database, log: SqlLog, clock: FakeClock
) -> None:
    host, boot, _, _, _ = this_process("x").split("/")
    await held(log, f"{host}/{boot}/{2**22 - 1}/1/x")
    clock.advance(3600)
    (stuck,) = await stuck_leases(database, clock)
    assert (stuck.is_dead, stuck.seconds) == (True, 3597)


async def test_a_lease_in_the_future_that_is_not_renewed_is_ended(
    database: Database, log: SqlLog, clock: FakeClock
) -> None:
    """As after a clock that went back: no process could take the log over."""
    await held(log)
    later = PatientClock(clock)
    await database.write(partial(do, "UPDATE logs SET lease_until = lease_until + 86400000"))
    stuck = await stuck_leases(database, clock)
    assert await expire(database, later, stuck) == [CHAT]
    assert await stuck_leases(database, later) == []


async def test_a_lease_of_a_log_without_work_is_released(
    database: Database, log: SqlLog, clock: FakeClock
) -> None:
    """As after a kill of a process that woke a log: no other would take it over."""
    await held(log)
    await database.write(partial(do, "UPDATE logs SET lease_until = 0, needs_run = 0"))
    stuck = await stuck_leases(database, clock)
    assert await expire(database, PatientClock(clock), stuck) == [CHAT]
    assert await stuck_leases(database, clock) == []
    assert await log.acquire(CHAT, "another") is not None


async def test_a_lease_that_is_renewed_meanwhile_stays(
    database: Database, log: SqlLog, clock: FakeClock
) -> None:
    await held(log)
    await database.write(partial(do, "UPDATE logs SET lease_until = lease_until + 86400000"))
    renewal = partial(do, "UPDATE logs SET lease_until = lease_until + 1000")

    async def renew() -> None:
        await database.write(renewal)

    stuck = await stuck_leases(database, clock)
    assert await expire(database, PatientClock(clock, renew), stuck) == []
    assert await expire(database, clock, []) == ()


@pytest.fixture
def on_disk(tmp_path: Path, clock: FakeClock) -> Blobs:
    return open_blobs(str(tmp_path / "blobs"), clock)


def age(blobs: Blobs, clock: FakeClock, seconds: int = 2 * DAY) -> None:
    """Make all files look as if they had been written so long ago."""
    assert blobs.folder is not None
    at = clock.now() / 1000 - seconds
    for path in blobs.folder.iterdir():
        os.utime(path, (at, at))


async def orphan_and_body(database: Database, blobs: Blobs, clock: FakeClock) -> BlobId:
    """Store a blob that no row names, and an event whose body is another one."""
    log = SqlLog(database, blobs, clock)
    await log.append(await held(log), [note("x" * 500)])
    return await blobs.put(b"no row names this")


async def test_a_blob_that_no_row_names_is_an_orphan_after_a_day(
    database: Database, on_disk: Blobs, clock: FakeClock
) -> None:
    orphan = await orphan_and_body(database, on_disk, clock)
    age(on_disk, clock, DAY - 60)
    assert await orphans(database, on_disk, clock) == set()
    age(on_disk, clock)
    assert await orphans(database, on_disk, clock) == {orphan}
    assert await collect_orphans(database, on_disk, clock) == 1
    assert not await on_disk.exists(orphan)
    assert len(await SqlLog(database, on_disk, clock).read(CHAT)) == 3


async def test_a_blob_that_the_sweeper_deletes_is_left_to_it(
    database: Database, on_disk: Blobs, clock: FakeClock
) -> None:
    orphan = await orphan_and_body(database, on_disk, clock)
    age(on_disk, clock)
    await database.write(lambda each: loosen(each, {orphan}, clock.now()))
    assert await orphans(database, on_disk, clock) == set()


async def test_a_blob_that_is_stored_again_meanwhile_is_kept(
    database: Database, on_disk: Blobs, clock: FakeClock, tmp_path: Path
) -> None:
    """The event that names it may not be committed yet."""
    orphan = await orphan_and_body(database, on_disk, clock)
    age(on_disk, clock)

    class Busy(Blobs):
        """Blobs that another process stores again after they were listed."""

        async def unwritten_since(self, before: object) -> set[BlobId]:
            found = await super().unwritten_since(before)  # type: ignore[arg-type]
            await on_disk.put(b"no row names this")
            return found

    busy = Busy(open_blobs(str(tmp_path / "blobs"))._objects, clock)  # noqa: SLF001
    assert await collect_orphans(database, busy, clock) == 0
    assert await on_disk.exists(orphan)


async def test_an_event_in_the_future_shows_a_clock_that_went_back(
    database: Database, log: SqlLog, clock: FakeClock
) -> None:
    assert (await skew(database, clock)).newest_event is None
    await held(log)
    assert (await skew(database, clock)).newest_event == 0
    await settle()
    before = FakeClock(clock.now())
    before.advance(-3600)
    found = await skew(database, before)
    assert found.newest_event == 3600
    assert (found.server is None) is (database.dialect == "sqlite")
