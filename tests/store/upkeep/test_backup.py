"""A backup is one moment of a database with its blobs, is verified, and shows any damage."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from penstock.core.errors import (
    ConfigError,
    NameTaken,
    StoreCorrupt,
    StoreReadOnly,
    StoreTooNew,
)
from penstock.core.ids import BlobId, LogId
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs, open_blobs
from penstock.store.database import Database, Opening, open_database
from penstock.store.erasure import Erasure
from penstock.store.logs.sql_log import SqlLog
from penstock.store.upkeep.backup import BackupWriter, open_unprepared
from penstock.store.upkeep.backup_folder import read_backup, verify_backup
from penstock.store.upkeep.contents import drifted
from penstock.testing.clock import FakeClock
from tests.kit.backups import damage_file, made, silent
from tests.kit.log_entries import CHAT, ONE, held, live_a_little, message, note, opened


@pytest.fixture
def database(in_a_file: Database) -> Database:
    return in_a_file


class Erasing(Blobs):
    """Blobs that run an action before the first read."""

    on_read: Callable[[], Awaitable[object]] | None = None

    async def get(self, blob_id: BlobId) -> bytes:
        """Run the action once, then read."""
        on_read, self.on_read = self.on_read, None
        if on_read is not None:
            await on_read()
        return await super().get(blob_id)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def rows(folder: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "penstock.db")) as connection:
        return connection.execute(statement).fetchall()


async def test_a_backup_has_the_rows_and_the_blobs_that_they_name(
    database: Database, log: SqlLog, blobs: Blobs, clock: FakeClock, tmp_path: Path
) -> None:
    await live_a_little(log, clock)
    unused = await blobs.put(b"no row names this")
    folder = tmp_path / "not yet" / "one"
    backup = await made(database, blobs, folder)
    assert (backup.logs, backup.events, backup.blobs) == (3, 15, 2)
    assert (backup.missing, backup.problems, backup.penstock) == ((), (), "1.0")
    assert read_backup(folder) == verify_backup(folder, silent) == backup
    assert unused not in {each.name for each in (folder / "blobs").iterdir()}
    assert names(folder.parent) == ["one"]
    assert names(folder) == [
        "backup.json",
        "blobs",
        "penstock.db",
    ]
    copy, copied = await open_unprepared(
        f"sqlite:///{folder}/penstock.db", str(folder / "blobs"), Limits()
    )
    assert await drifted(copy, copied, most_events=100) == (3, [])
    await copy.close()


async def test_in_a_backup_no_log_has_a_lease(
    database: Database, log: SqlLog, blobs: Blobs, tmp_path: Path
) -> None:
    """Else the first process after a restore would count a crash of each task that ran."""
    lease = await held(log)
    await made(database, blobs, tmp_path / "one")
    columns = "owner, lease_until, needs_run, epoch"
    assert rows(tmp_path / "one", f"SELECT {columns} FROM logs") == [(None, 0, 1, lease.epoch)]  # noqa: S608
    await log.append(lease, [note("the holder goes on")])


async def test_writes_continue_during_a_backup_and_are_not_in_it(
    database: Database, log: SqlLog, blobs: Blobs, tmp_path: Path
) -> None:
    await log.send(CHAT, [opened(), message()])
    loop, sent = asyncio.get_running_loop(), list[Future[object]]()

    def progress(what: str, done: int, total: int) -> None:
        if not sent:
            other = log.send(LogId("conv_2"), [opened("later")])
            sent.append(asyncio.run_coroutine_threadsafe(other, loop))

    writer = BackupWriter(database, blobs, FakeClock(), progress=progress, version="1")
    backup = await writer.write(tmp_path / "one")
    await asyncio.wrap_future(sent[0])
    assert backup.logs == 1
    assert await log.read(LogId("conv_2"))


async def test_a_blob_that_is_erased_during_a_backup_is_not_in_it(
    database: Database, tmp_path: Path
) -> None:
    """The rows that named it would be in the copy, so the copy is made again."""
    blobs = Erasing(open_blobs(str(tmp_path / "blobs"))._objects)  # noqa: SLF001
    clock = FakeClock()
    log, erasure = SqlLog(database, blobs, clock), Erasure(database, blobs, clock)
    lease = await held(log)
    await log.append(lease, [note("pineapple " * 100)])
    await log.send(LogId("conv_2"), [opened()])

    async def erase() -> None:
        await erasure.erase_log(CHAT)

    blobs.on_read = erase
    backup = await made(database, blobs, tmp_path / "one")
    assert (backup.logs, backup.blobs, backup.missing) == (1, 0, ())
    for file in (tmp_path / "one").rglob("*"):
        assert file.is_dir() or b"pineapple" not in file.read_bytes()


async def test_a_backup_that_is_cut_has_no_name(database: Database, tmp_path: Path) -> None:
    """A cancelled one is removed; a killed one has another name."""
    blobs = Erasing(open_blobs(str(tmp_path / "blobs"))._objects)  # noqa: SLF001
    log = SqlLog(database, blobs, FakeClock())
    await log.append(await held(log), [note("x" * 500)])
    seen = list[str]()

    async def cut() -> None:
        seen.extend(names(tmp_path))
        raise asyncio.CancelledError

    blobs.on_read = cut
    with pytest.raises(asyncio.CancelledError):
        await made(database, blobs, tmp_path / "one")
    assert [each for each in seen if each.startswith(".one.part_")]
    assert names(tmp_path) == ["blobs", "data"]


async def test_a_blob_that_was_lost_before_is_reported(
    database: Database, log: SqlLog, blobs: Blobs, tmp_path: Path
) -> None:
    lease = await held(log)
    await log.append(lease, [note("x" * 500), note("y" * 500)])
    statement = text("SELECT blob_id FROM events WHERE blob_id IS NOT NULL")
    lost, _ = await database.read(lambda each: each.execute(statement).scalars().all())
    await blobs.delete(lost)
    backup = await made(database, blobs, tmp_path / "one")
    assert (backup.blobs, backup.missing) == (1, (lost,))
    (problem,) = backup.problems
    assert lost in problem
    assert verify_backup(tmp_path / "one", silent) == backup


async def test_bytes_that_two_events_name_keep_their_mark(
    database: Database, log: SqlLog, blobs: Blobs, tmp_path: Path
) -> None:
    """Without it, erasing one of the events would delete them for the other."""
    await log.append(await held(log), [note("x" * 500)])
    await log.send(LogId("conv_2"), [opened()])
    lease = await log.acquire(LogId("conv_2"), "me")
    assert lease is not None
    await log.append(lease, [note("x" * 500), note("y" * 500)])
    await made(database, blobs, tmp_path / "one")
    kept = names(tmp_path / "one" / "blobs")
    assert sorted(each.endswith(".shared") for each in kept) == [False, False, True]


async def test_a_database_of_a_newer_version_is_not_copied(
    database: Database, blobs: Blobs, tmp_path: Path
) -> None:
    newer = text("UPDATE alembic_version SET version_num = '9999'")
    await database.write(lambda each: each.execute(newer))
    with pytest.raises(StoreTooNew, match="the database is at revision 9999"):
        await made(database, blobs, tmp_path / "one")
    assert not (tmp_path / "one").exists()


async def test_a_folder_that_exists_is_not_overwritten(
    database: Database, blobs: Blobs, tmp_path: Path
) -> None:
    await made(database, blobs, tmp_path / "one")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("one", "link"):
        with pytest.raises(NameTaken, match="name a folder that does not exist yet"):
            await made(database, blobs, tmp_path / name)


async def test_a_place_that_cannot_be_written_gets_nothing(
    database: Database, blobs: Blobs, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(StoreReadOnly, match="cannot be written: File exists"):
        await made(database, blobs, tmp_path / "file" / "one")


async def test_a_database_that_is_being_moved_is_not_copied(
    database: Database, blobs: Blobs, tmp_path: Path
) -> None:
    mark = text("INSERT INTO installation VALUES ('moving', x'78')")
    await database.write(lambda each: each.execute(mark))
    with pytest.raises(ConfigError, match="a move of this database is not complete"):
        await made(database, blobs, tmp_path / "one")
    moved = text("UPDATE installation SET name = 'moved' WHERE name = 'moving'")
    await database.write(lambda each: each.execute(moved))
    await made(database, blobs, tmp_path / "one")
    await (await open_database(f"sqlite:///{tmp_path}/one/penstock.db")).close()


async def test_a_database_in_memory_is_not_copied() -> None:
    with pytest.raises(ConfigError, match="no database in memory"):
        await open_unprepared("sqlite://", "memory:///", Limits())


async def test_a_damaged_database_is_not_copied(
    database: Database, log: SqlLog, blobs: Blobs, sqlite_url: str, tmp_path: Path
) -> None:
    await log.send(CHAT, [opened(), message(ONE)])
    await database.close()
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    damage_file(path)
    damaged = await open_database(sqlite_url, how=Opening.AS_IT_IS)
    with pytest.raises(StoreCorrupt, match="no backup was made"):
        await made(damaged, blobs, tmp_path / "one")
    await damaged.close()
    assert names(tmp_path) == ["data"]
