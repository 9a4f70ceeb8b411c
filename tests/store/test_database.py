"""Opening, reading and closing a database, and every way in which it may say no."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, select, text

from penstock.core.errors import (
    ConfigError,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
)
from penstock.core.limits import Limits
from penstock.store.database import Database, open_database
from penstock.store.tables import installation

QUICK = Limits(busy_seconds=0.05)


def put(name: str, value: bytes = b"x") -> Callable[[Connection], None]:
    def unit(connection: Connection) -> None:
        connection.execute(installation.insert().values(name=name, value=value))

    return unit


def asked(pragma: str, connection: Connection) -> object:
    return connection.exec_driver_sql(f"PRAGMA {pragma}").scalar()


def names(connection: Connection) -> set[str]:
    return set(connection.execute(select(installation.c.name)).scalars()) - {"secret"}


# ---- the sunny day -------------------------------------------------------------------------------


async def test_a_write_is_read_at_once_and_after_reopening(database_url: str) -> None:
    database = await open_database(database_url)
    await database.write(put("a"))
    assert await database.read(names) == {"a"}
    await database.close()
    again = await open_database(database_url)
    assert await again.read(names) == {"a"}
    assert again.secret == database.secret
    assert len(again.secret) == 32
    await again.close()


async def test_two_databases_have_two_secrets(tmp_path: Path) -> None:
    secrets = set()
    for name in ("a", "b"):
        database = await open_database(f"sqlite:///{tmp_path}/{name}.db")
        secrets.add(database.secret)
        await database.close()
    assert len(secrets) == 2


async def test_only_the_owner_can_access_the_created_directory(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path}/a/b/penstock.db")
    await database.close()
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


async def test_a_database_in_memory_is_one_for_writers_and_readers() -> None:
    database = await open_database("sqlite://")
    await database.write(put("a"))
    assert await database.read(names) == {"a"}
    await database.close()


@pytest.mark.parametrize(("synchronous", "level"), [("FULL", 2), ("NORMAL", 1)])
async def test_a_commit_syncs_as_configured(sqlite_url: str, synchronous: str, level: int) -> None:
    database = await open_database(sqlite_url, synchronous=synchronous)
    for pragma, wanted in {"synchronous": level, "journal_mode": "wal", "foreign_keys": 1}.items():
        assert await database.write(partial(asked, pragma)) == wanted
    await database.close()


async def test_a_writer_checkpoints_the_wal_of_sqlite(sqlite: Database) -> None:
    """A log that is folded in seldom stops everybody seldom; what it takes of the disk is bound."""
    assert await sqlite.write(partial(asked, "wal_autocheckpoint")) == 4000


async def test_a_refused_unit_leaves_nothing_behind(database: Database) -> None:
    def unit(connection: Connection) -> None:
        put("a")(connection)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await database.write(unit)
    assert await database.read(names) == set()


async def test_readers_read_while_others_write(database: Database) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(database.write(put(str(number))))
            group.create_task(database.read(names))
    assert len(await database.read(names)) == 20


# ---- addresses -----------------------------------------------------------------------------------

NO_ADDRESS = ["", "penstock.db", "mysql://localhost/x", "nonsense://x", "sqlite"]


@pytest.mark.parametrize("url", NO_ADDRESS)
async def test_an_address_of_something_else_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"sqlite:///FILE or postgresql://USER@HOST/NAME, found"):
        await open_database(url)


async def test_messages_never_show_a_password() -> None:
    with pytest.raises(StoreError) as refused:
        await open_database("postgresql://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(refused.value)
    assert "127.0.0.1:1/none" in str(refused.value)


# ---- closed --------------------------------------------------------------------------------------


async def test_a_closed_database_raises_store_closed(database: Database) -> None:
    await database.close()
    await database.close()
    with pytest.raises(StoreClosed):
        await database.read(names)
    with pytest.raises(StoreClosed):
        await database.write(put("a"))


# ---- full ----------------------------------------------------------------------------------------


async def test_a_full_disk_is_reported_and_loses_nothing(sqlite: Database) -> None:
    await sqlite.write(put("before"))
    pages = await sqlite.write(lambda each: each.exec_driver_sql("PRAGMA page_count").scalar())
    await sqlite.write(lambda each: each.exec_driver_sql(f"PRAGMA max_page_count = {pages}").all())
    with pytest.raises(StoreFull, match=r"nothing was lost.*penstock\.db: .*full"):
        await sqlite.write(put("large", b"x" * 100_000))
    assert await sqlite.read(names) == {"before"}
    await sqlite.write(lambda each: each.exec_driver_sql("PRAGMA max_page_count = 99999").all())
    await sqlite.write(put("after"))
    assert await sqlite.read(names) == {"before", "after"}


# ---- read-only -----------------------------------------------------------------------------------


async def test_readers_cannot_write(database: Database) -> None:
    with pytest.raises(StoreReadOnly):
        await database.read(put("a"))
    assert await database.read(names) == set()


async def test_a_file_that_may_not_be_written_is_refused(sqlite_url: str) -> None:
    await (await open_database(sqlite_url)).close()
    file = sqlite_url.removeprefix("sqlite:///")
    with pytest.raises(StoreReadOnly, match=r"penstock\.db.*readonly"):
        await open_database(f"sqlite:///file:{file}?mode=ro&uri=true")


async def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreReadOnly, match="cannot be made: Not a directory"):
        await open_database(f"sqlite:///{tmp_path}/file/below/penstock.db")
    with pytest.raises(StoreReadOnly, match="unable to open database file"):
        await open_database(f"sqlite:///{tmp_path}")


# ---- locked --------------------------------------------------------------------------------------


async def test_a_locked_file_raises_store_locked_after_a_wait(sqlite: Database) -> None:
    with closing(sqlite3.connect(sqlite.place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLocked, match=r"penstock\.db: database is locked"):
            await sqlite.write(put("a"))
        other.execute("ROLLBACK")
    await sqlite.write(put("b"))
    assert await sqlite.read(names) == {"b"}


async def test_a_new_file_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        opening = asyncio.ensure_future(open_database(f"sqlite:///{tmp_path}/new.db"))
        assert await asyncio.wait({opening}, timeout=0.2) == (set(), {opening})
        other.execute("ROLLBACK")
        await (await opening).close()


async def test_a_file_that_another_process_holds_for_itself_is_refused(sqlite_url: str) -> None:
    await (await open_database(sqlite_url)).close()
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreLocked):
            await open_database(sqlite_url, limits=QUICK)


async def test_a_locked_row_on_postgres_raises_store_locked_after_a_wait(postgres_url: str) -> None:
    database = await open_database(postgres_url, limits=Limits(busy_seconds=0.4))
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE installation")
        with pytest.raises(StoreLocked, match="lock timeout"):
            await database.write(put("a"))
    await database.write(put("b"))
    assert await database.read(names) == {"b"}
    await database.close()


async def test_postgres_ends_the_transaction_of_a_frozen_process(postgres_url: str) -> None:
    """Or it would hold the others for ever."""
    frozen = await open_database(postgres_url, limits=QUICK)
    database = await open_database(postgres_url)
    wrote, thaw = threading.Event(), threading.Event()

    def unit(connection: Connection) -> None:
        put("frozen")(connection)
        wrote.set()
        thaw.wait(5)

    waiting = asyncio.ensure_future(frozen.write(unit))
    await asyncio.to_thread(wrote.wait, 5)
    await database.write(lambda each: each.execute(text("LOCK TABLE installation")))
    await database.write(put("b"))
    thaw.set()
    with pytest.raises(StoreError, match="idle"):
        await waiting
    assert await database.read(names) == {"b"}
    await frozen.close()
    await database.close()


# ---- too new, broken, not ours -------------------------------------------------------------------


async def test_a_database_of_a_newer_version_is_not_changed(database_url: str) -> None:
    database = await open_database(database_url)
    newer = text("UPDATE alembic_version SET version_num = '9999'")
    await database.write(lambda connection: connection.execute(newer))
    await database.close()
    with pytest.raises(
        StoreTooNew, match=r"'9999', this one knows up to '\d{4}'.*Upgrade penstock"
    ):
        await open_database(database_url)


async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "penstock.db"
    file.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreCorrupt, match="not a database"):
        await open_database(f"sqlite:///{file}")
    assert file.read_bytes() == b"no database at all" * 1000


def overwrite(file: Path) -> None:
    """Break everything but the first hundred bytes, which say what the file is."""
    whole = file.read_bytes()
    file.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))


async def test_a_file_with_broken_pages_is_noticed(sqlite_url: str) -> None:
    database = await open_database(sqlite_url)
    await database.write(put("large", b"x" * 100_000))
    await database.close()
    overwrite(Path(sqlite_url.removeprefix("sqlite:///")))
    with pytest.raises(StoreCorrupt, match="malformed"):
        await open_database(sqlite_url)


async def test_tables_of_another_program_are_not_touched(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE tasks (id)")
    with pytest.raises(StoreCorrupt, match=r"another program \(tasks\)"):
        await open_database(f"sqlite:///{tmp_path}/other.db")


# ---- several processes ---------------------------------------------------------------------------
WRITE_TEN = """
import asyncio, sys
from penstock.store.database import open_database
from penstock.store.tables import installation

async def main(url, me):
    database = await open_database(url, synchronous="NORMAL")
    for number in range(10):
        row = {"name": f"{me} {number}", "value": b""}
        await database.write(lambda each: each.execute(installation.insert(), row))
    await database.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.programs
@pytest.mark.slow(reason="starts four interpreters")
async def test_many_processes_may_make_and_write_one_database(database_url: str) -> None:
    command = [sys.executable, "-c", WRITE_TEN, database_url]
    writers = [subprocess.Popen([*command, str(number)]) for number in range(4)]  # noqa: ASYNC220
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    database = await open_database(database_url)
    assert len(await database.read(names)) == 40
    await database.close()


async def test_two_servers_may_share_one_database(database_url: str) -> None:
    one, two = await open_database(database_url), await open_database(database_url)
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(one.write(put(f"one {number}")))
            group.create_task(two.write(put(f"two {number}")))
    assert await one.read(names) == await two.read(names)
    assert len(await one.read(names)) == 20
    await one.close()
    await two.close()


async def fill(database: Database, words: int) -> None:
    """Keep a word often, in rows that are then deleted."""
    rows = [{"name": f"{n}", "value": b"sesame" * 200} for n in range(words)]

    def unit(connection: Connection) -> None:
        connection.execute(installation.insert(), rows)

    await database.write(unit)
    await database.write(
        lambda each: each.execute(installation.delete().where(installation.c.name != "secret"))
    )


def files_of(database: Database) -> dict[str, bytes]:
    """Return what the files of a database hold."""
    assert database.folder is not None
    return {each.name: each.read_bytes() for each in database.folder.iterdir()}


async def test_deleted_rows_are_overwritten_in_all_files(sqlite: Database) -> None:
    assert await sqlite.write(partial(asked, "secure_delete")) == 1  # not every build has it on
    await fill(sqlite, 50)
    assert b"sesame" in files_of(sqlite)["penstock.db-wal"]
    await asyncio.gather(sqlite.scrub(), sqlite.scrub())
    found = files_of(sqlite)
    assert found["penstock.db-wal"] == b""
    assert not [name for name, content in found.items() if b"sesame" in content]


async def test_free_pages_of_a_large_file_are_overwritten_in_place(
    sqlite_url: str,
) -> None:
    """`VACUUM` would give the free pages back: other writers would wait too long for it."""
    sizes = {}
    for most in (0, Limits().compact_bytes):
        database = await open_database(sqlite_url, limits=Limits(compact_bytes=most))
        await fill(database, 50)
        await database.scrub()
        sizes[most] = len(files_of(database)["penstock.db"])
        assert b"sesame" not in files_of(database)["penstock.db"]
        await database.close()
    assert sizes[0] > max(sizes[most] for most in sizes if most)


async def test_a_file_in_use_is_reported_and_overwritten_by_the_next_call(
    sqlite: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(sqlite, 5)
    with closing(sqlite3.connect(f"{sqlite.folder}/penstock.db", isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM installation").fetchall()
        await fill(sqlite, 5)
        assert not await sqlite.scrub()
    (said,) = caplog.messages
    assert said.endswith("its files may contain erased rows until the next attempt")
    assert await sqlite.scrub()
    assert files_of(sqlite)["penstock.db-wal"] == b""


async def test_scrub_does_nothing_in_memory_and_on_postgres(postgres_url: str) -> None:
    for url in ("sqlite://", postgres_url):
        database = await open_database(url)
        assert await database.scrub()
        await database.close()
