"""A database moves to another one and back, whole or not at all."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from penstock.core.errors import ConfigError, StoreCorrupt, StoreFull, StoreLocked
from penstock.core.ids import BlobId
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs, open_blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.owners import this_process
from penstock.store.logs.sql_log import SqlLog
from penstock.store.schema import MOVED
from penstock.store.tables import installation, state
from penstock.store.upkeep.contents import drifted
from penstock.store.upkeep.moving import (
    TABLES,
    Moved,
    abandon,
    chunk,
    count_rows,
    empty,
    insert,
    open_move,
    place_after,
)
from penstock.testing.clock import FakeClock
from tests.kit.backups import silent
from tests.kit.log_entries import CHAT, held, live_a_little, note

LIMITS = Limits(body_bytes=200)


def do(statement: str, connection: Connection) -> None:
    connection.execute(text(statement))


async def change(url: str, *statements: str) -> None:
    database = await open_database(url)
    for statement in statements:
        await database.write(partial(do, statement))
    await database.close()


@pytest.fixture
def blobs(clock: FakeClock) -> Blobs:
    return open_blobs("memory:///", clock)


@pytest.fixture
async def source(sqlite_url: str, blobs: Blobs, clock: FakeClock) -> str:
    """A SQLite file with three logs, a value, a file, a secret and a key."""
    database = await open_database(sqlite_url, limits=LIMITS)
    await live_a_little(SqlLog(database, blobs, clock), clock)
    await database.close()
    # the conversation was held by a process that is gone
    await change(
        sqlite_url,
        "UPDATE logs SET lease_until = 0",
        "INSERT INTO state VALUES ('profile', 'ann', x'00ff', '{\"a\": 1}', 'r', NULL)",
        "INSERT INTO secrets VALUES ('profile', 'ann', 'k', 'id', x'00ff00', 1)",
        "INSERT INTO keys (sha256, name, profile_id, permissions, created_at) VALUES "
        "('h', 'ci', 'ann', '[\"read\", \"chat\"]', 1)",
    )
    return sqlite_url


async def moved(source: str, target: str, blobs: Blobs, target_blobs: Blobs | None = None) -> Moved:
    clock = FakeClock()
    move, databases = await open_move(source, target, clock, silent)
    try:
        return await move.run(blobs, target_blobs)
    finally:
        for database in databases:
            await database.close()


async def check_works(url: str, blobs: Blobs) -> None:
    """The database at an address can be used, and has the logs."""
    database = await open_database(url, limits=LIMITS)
    assert await drifted(database, blobs, most_events=100) == (3, [])
    log = SqlLog(database, blobs, FakeClock())
    assert (await log.read(CHAT))[-1].seq == 13
    await database.close()


async def check_is_closed(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        await open_database(url)


async def test_everything_moves_to_postgres_and_back(
    source: str, postgres_url: str, blobs: Blobs
) -> None:
    first = await moved(source, postgres_url, blobs)
    assert (first.rows["logs"], first.rows["keys"], first.rows["secrets"]) == (3, 1, 1)
    await check_works(postgres_url, blobs)
    await check_is_closed(source, "was moved to postgresql.*: set database_url to that address")
    back = await moved(postgres_url, source, blobs)
    assert (back.rows, back.digest) == (first.rows, first.digest)
    await check_works(source, blobs)
    await check_is_closed(postgres_url, "was moved to")


async def test_blobs_move_with_their_marks_if_a_place_is_named(
    source: str, tmp_path: Path, blobs: Blobs, clock: FakeClock
) -> None:
    place = open_blobs(str(tmp_path / "blobs"), clock)
    found = await moved(source, f"sqlite:///{tmp_path}/other.db", blobs, place)
    assert found.blobs == 2
    await check_works(f"sqlite:///{tmp_path}/other.db", place)


async def test_a_target_with_content_is_refused(
    source: str, tmp_path: Path, blobs: Blobs, clock: FakeClock
) -> None:
    target = f"sqlite:///{tmp_path}/other.db"
    database = await open_database(target)
    await held(SqlLog(database, blobs, clock))
    await database.close()
    with pytest.raises(ConfigError, match="is not empty: it has 2 rows in events"):
        await moved(source, target, blobs)
    await check_works(source, blobs)


async def test_the_same_address_is_refused(source: str, blobs: Blobs) -> None:
    with pytest.raises(ConfigError, match="already"):
        await moved(source, source, blobs)


async def test_a_source_whose_log_is_held_is_refused(
    source: str, tmp_path: Path, blobs: Blobs
) -> None:
    until = FakeClock().now() + 1000
    owner = this_process("other")
    await change(source, f"UPDATE logs SET owner = '{owner}', lease_until = {until}")  # noqa: S608
    with pytest.raises(StoreLocked, match=r"works on conv_1 and 2 other logs\. Stop"):
        await moved(source, f"sqlite:///{tmp_path}/other.db", blobs)
    await check_works(source, blobs)


async def test_a_file_that_a_process_has_open_is_refused(
    source: str, tmp_path: Path, blobs: Blobs
) -> None:
    database = await open_database(source)
    with pytest.raises(StoreLocked, match="another process has"):
        await moved(source, f"sqlite:///{tmp_path}/other.db", blobs)
    await database.close()


async def test_a_connected_process_on_postgres_is_refused(
    source: str, postgres_url: str, tmp_path: Path, blobs: Blobs
) -> None:
    await moved(source, postgres_url, blobs)
    other = await open_database(postgres_url)
    await other.read(partial(do, "SET application_name = 'penstock 1 elsewhere'"))
    with pytest.raises(StoreLocked, match="other processes are connected: penstock 1 elsewhere"):
        await moved(postgres_url, f"sqlite:///{tmp_path}/other.db", blobs)
    await other.close()


class Cut(Blobs):
    """Blobs that fail at the first read, in the middle of a move."""

    error: BaseException = StoreFull()

    async def get(self, blob_id: BlobId) -> bytes:
        raise self.error


async def test_a_move_to_postgres_that_fails_leaves_the_source_open_and_can_be_repeated(
    source: str, postgres_url: str, blobs: Blobs
) -> None:
    with pytest.raises(StoreFull):
        await moved(source, postgres_url, Cut(blobs._objects), blobs)  # noqa: SLF001
    await check_works(source, blobs)
    await check_is_closed(postgres_url, "is not complete")
    assert (await moved(source, postgres_url, blobs)).rows["logs"] == 3
    await check_works(postgres_url, blobs)


async def test_a_move_that_was_killed_is_repeated_or_ended(
    source: str, tmp_path: Path, blobs: Blobs
) -> None:
    target = f"sqlite:///{tmp_path}/other.db"
    await change(source, "INSERT INTO installation VALUES ('moving', x'78')")
    await check_is_closed(source, "run it again, or end it: penstock move --abort")
    assert await abandon(source)
    await check_works(source, blobs)
    assert not await abandon(source)
    await change(source, "INSERT INTO installation VALUES ('moving', x'78')")
    await moved(source, target, blobs)
    await check_works(target, blobs)
    with pytest.raises(ConfigError, match="was moved to"):
        await moved(source, f"sqlite:///{tmp_path}/third.db", blobs)


async def test_a_target_that_differs_at_the_end_is_refused(
    source: str, tmp_path: Path, blobs: Blobs, clock: FakeClock
) -> None:
    target = f"sqlite:///{tmp_path}/other.db"
    move, databases = await open_move(source, target, clock, silent)

    class Flipping(Blobs):
        """Blobs whose first read changes a row that was copied."""

        async def get(self, blob_id: BlobId) -> bytes:
            statement = "UPDATE events SET body = replace(body, 'Hello', 'Hullo')"
            await databases[1].write(partial(do, statement))
            return await super().get(blob_id)

    with pytest.raises(StoreCorrupt, match="table events"):
        await move.run(Flipping(blobs._objects), open_blobs("memory:///"))  # noqa: SLF001
    await asyncio.gather(*[each.close() for each in databases])
    await check_works(source, blobs)


async def test_a_log_that_grows_after_a_move_to_postgres_is_whole(
    source: str, postgres_url: str, blobs: Blobs, clock: FakeClock
) -> None:
    await moved(source, postgres_url, blobs)
    database = await open_database(postgres_url, limits=LIMITS)
    log = SqlLog(database, blobs, clock)
    clock.advance(60)
    lease = await log.acquire(CHAT, "new")
    assert lease is not None
    await log.append(lease, [note("x" * 500)])
    assert (await log.read(CHAT))[-1].seq == 14
    await database.close()


ROW = {"kind": "profile", "scope_id": "ann", "value": "1", "revision": "r"}


async def test_all_rows_are_read_once_in_chunks(database: Database) -> None:
    wanted = [ROW | {"key": b"k%04d" % number, "expires_at": None} for number in range(1201)]
    for start in range(0, len(wanted), 100):
        await database.write(partial(insert, state, wanted[start : start + 100]))
    assert await database.read(partial(count_rows, state)) == len(wanted)
    found, sizes, place = [], [], None
    while rows := await database.read(partial(chunk, state, place)):
        place = place_after(state, rows)
        found += [each["key"] for each in rows]
        sizes.append(len(rows))
    assert found == [each["key"] for each in wanted]
    assert max(sizes) < len(wanted)


async def test_marks_of_moves_are_no_content(database: Database) -> None:
    mark = {"name": MOVED, "value": b"elsewhere"}
    await database.write(lambda each: each.execute(installation.insert(), mark))
    rows = await database.read(partial(chunk, installation, None))
    assert MOVED not in {each["name"] for each in rows}
    assert len(rows) < await database.read(partial(count_rows, installation))


async def test_a_database_is_emptied(database: Database) -> None:
    await database.write(empty)
    counts = [await database.read(partial(count_rows, table)) for table in TABLES]
    assert set(counts) == {0}
