"""SQLite returns free pages to the disk in small steps."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection

from penstock.store.database import Database, open_database
from penstock.store.upkeep.space import GENTLE, Space, give_back, space_of
from penstock.testing.clock import FakeClock


class CountingClock(FakeClock):
    """A clock that does not wait."""

    waits = 0

    async def sleep(self, seconds: float) -> None:
        """Count."""
        self.waits += 1


def fill(connection: Connection) -> None:
    connection.exec_driver_sql("CREATE TABLE junk (a INTEGER PRIMARY KEY, b TEXT)")
    rows = [(number, "x" * 3000) for number in range(300)]
    connection.exec_driver_sql("INSERT INTO junk VALUES (?, ?)", rows)


def free(connection: Connection) -> None:
    connection.exec_driver_sql("DELETE FROM junk WHERE a % 2 = 0")


async def test_a_new_database_gives_free_pages_back_in_steps(sqlite: Database) -> None:
    await sqlite.write(fill)
    await sqlite.write(free)
    before, clock = await space_of(sqlite), CountingClock()
    assert before is not None
    assert before.is_incremental
    assert before.free >= 150
    assert await give_back(sqlite, clock) == before.free
    assert clock.waits == -(-before.free // GENTLE.pages)
    after = await space_of(sqlite)
    assert after is not None
    assert (after.free, after.pages) == (0, before.pages - before.free)
    rows = await sqlite.read(
        lambda each: each.exec_driver_sql("SELECT count(*), sum(length(b)) FROM junk").one()
    )
    assert tuple(rows) == (150, 450_000)


async def test_some_free_pages_can_stay(sqlite: Database) -> None:
    await sqlite.write(fill)
    await sqlite.write(free)
    await give_back(sqlite, CountingClock(), least=100)
    space = await space_of(sqlite)
    assert space is not None
    assert 100 - GENTLE.pages <= space.free <= 100


async def test_an_old_database_is_rewritten_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/one.db"
    database = await open_database(url)
    await database.write(fill)
    await database.write(free)
    await database.close()
    make_old(tmp_path / "one.db")
    database, clock = await open_database(url), CountingClock()
    old = await space_of(database)
    assert old is not None
    assert (old.is_incremental, await give_back(database, clock)) == (False, 0)
    assert await database.rewrite()
    new = await space_of(database)
    await database.close()
    assert new is not None
    assert (new.is_incremental, new.free) == (True, 0)


def make_old(file: Path) -> None:
    """Make a file what an older version created: without pointers for moving pages."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")


async def test_memory_and_postgres_have_no_pages(postgres_url: str) -> None:
    for url in ("sqlite://", postgres_url):
        database = await open_database(url)
        assert await space_of(database) is None
        assert await give_back(database, CountingClock()) == 0
        assert await database.rewrite()
        await database.close()


def test_space_is_wasted_from_4_mib_and_a_tenth_on() -> None:
    def is_wasted(pages: int, free: int) -> bool:
        return Space(pages, free, 4096, is_incremental=True).is_wasted

    assert is_wasted(10_000, 1024)
    assert not is_wasted(10_000, 1023)
    assert not is_wasted(100_000, 9_999)
    assert is_wasted(100_000, 10_000)
