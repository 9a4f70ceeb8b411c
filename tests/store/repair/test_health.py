"""Whether a database is sound."""

import asyncio
import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.store.blobs.blobs import open_blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.repair.health import check, gaps, little_space, look, read_back
from penstock.store.tables import REVISION
from tests.kit.entries import CHAT, TWO, message, opened
from tests.kit.server import in_memory


async def test_a_new_database_is_sound_and_empty(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path}/new.db")
    health = await check(database)
    await database.close()
    assert (health.revision, health.logs, health.events, health.problems) == (REVISION, 0, 0, ())


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    await (await open_database(f"sqlite:///{path}")).close()
    pages = bytearray(path.read_bytes())
    pages[-2048:] = b"\xff" * 2048
    path.write_bytes(pages)
    database = await open_database(f"sqlite:///{path}")
    health = await check(database)
    await database.close()
    assert health.problems


async def test_events_that_do_not_read_back_are_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    async with in_memory(url=url) as runtime:
        reply = await runtime.chat("Hi")
    database = await open_database(url)
    blobs = open_blobs("memory:///")
    read, broken = await read_back(database, blobs)
    assert (read > 3, broken) == (True, ())
    await database.write(
        lambda each: each.execute(text("UPDATE events SET body = '{bro' WHERE seq = 3"))
    )
    await database.write(
        lambda each: each.execute(text("UPDATE events SET blob_id = 'blob_lost' WHERE seq = 2"))
    )
    named = tuple(f"event {seq} of log {reply.session_id!r}" for seq in (2, 3))
    assert await read_back(database, blobs) == (read, named)
    assert (await read_back(database, blobs, most=1))[0] == 1
    await database.close()


GAPS = [
    ("DELETE FROM events WHERE log_id = 'conv_1' AND seq = 2", 2, "2 of 3"),
    ("DELETE FROM events WHERE log_id = 'conv_1' AND seq < 3", 1, "1 of 3"),
    ("DELETE FROM events WHERE log_id = 'conv_1' AND seq > 1", 2, "1 of 3"),
    ("DELETE FROM events WHERE log_id = 'conv_1'", 1, "0 of 3"),
    ("UPDATE logs SET head = 4 WHERE log_id = 'conv_1'", 4, "3 of 4"),
    ("UPDATE logs SET head = 2 WHERE log_id = 'conv_1'", 4, "3 of 2"),
    ("UPDATE events SET seq = 7 WHERE log_id = 'conv_1' AND seq = 3", 3, "3 of 3"),
]


@pytest.mark.parametrize(("damage", "seq", "found"), GAPS)
async def test_a_log_in_which_events_are_missing_is_named(
    database: Database, log: SqlLog, damage: str, seq: int, found: str
) -> None:
    await log.send(CHAT, [opened(), message(), message(TWO)])
    await log.send(LogId("conv_2"), [opened()])
    assert await gaps(database) == ()
    await database.write(lambda each: each.execute(text(damage)))
    assert await gaps(database) == (f"event {seq} of log 'conv_1', which has {found}",)


async def wrong(place: Path, *statements: str, limits: Limits | None = None) -> dict[str, str]:
    """Return what is said to be wrong after that was done to a store at a place."""
    database = await open_database(f"sqlite:///{place / 'one.db'}", limits=limits)
    for statement in statements:
        await database.write(lambda each, do=statement: each.execute(text(do)))  # type: ignore[misc]
    checks = await look(database, open_blobs(str(place / "blobs")))
    await database.close()
    assert [each.name for each in checks] == ["database", "migrations", "disk", "blobs"]
    return {each.name: each.why for each in checks if each.why}


async def test_a_store_that_works(tmp_path: Path) -> None:
    """The try leaves nothing behind."""
    assert await wrong(tmp_path) == {}
    assert list((tmp_path / "blobs").iterdir()) == []


async def test_a_store_whose_tables_are_of_another_version(tmp_path: Path) -> None:
    found = await wrong(tmp_path, "UPDATE alembic_version SET version_num = '9999'")
    said = f"the tables are at revision 9999, this version wants {REVISION}"
    assert found == {"migrations": said}


async def test_a_store_that_has_lost_a_table(tmp_path: Path) -> None:
    found = await wrong(tmp_path, "DROP TABLE logs")
    assert list(found) == ["database"]


async def test_a_store_with_little_space(tmp_path: Path) -> None:
    found = await wrong(tmp_path, limits=Limits(free_bytes=2**62))
    assert list(found) == ["disk"]


async def test_blobs_that_cannot_be_written(tmp_path: Path) -> None:
    database = await open_database("sqlite://")
    blobs = open_blobs(str(tmp_path / "blobs"))
    (tmp_path / "blobs").rmdir()
    (tmp_path / "blobs").write_text("a file where the folder was")
    checks = await look(database, blobs)
    await database.close()
    (why,) = [each.why for each in checks if each.why and each.name == "blobs"]
    assert why == "The database or its disk failed. `penstock doctor` checks both."


async def test_a_database_that_was_closed(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'one.db'}")
    await database.close()
    checks = await look(database, open_blobs("memory:///"))
    assert {each.name: each.why for each in checks if each.why} == dict.fromkeys(
        ("database", "migrations"), "The database was closed."
    )


async def test_what_takes_too_long_is_given_up(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'one.db'}")
    checks = await look(database, open_blobs(str(tmp_path / "blobs")), seconds=-1)
    await database.close()
    assert {each.why for each in checks} == {"no answer within -1 s"}


@pytest.mark.parametrize(("least", "is_little"), [(0, False), (2**62, True)])
def test_space_is_little_or_enough(tmp_path: Path, least: int, *, is_little: bool) -> None:
    assert bool(little_space([tmp_path], least)) is is_little
    assert little_space([], least) == ""
    assert little_space([tmp_path / "none"], least).startswith("the free space cannot be read")


async def test_no_database_that_works_has_problems(database: Database) -> None:
    assert (await check(database)).problems == ()


async def test_a_closed_database_leaves_no_reader_behind(database: Database) -> None:
    before = {*threading.enumerate()}
    await asyncio.gather(*(check(database) for _ in range(3)))
    await database.close()
    begun = {each.name for each in {*threading.enumerate()} - before}
    assert not [name for name in begun if name.startswith("penstock-reader")]
