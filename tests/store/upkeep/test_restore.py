"""A restore leaves the old state or the backup, and nothing in between."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.core.errors import (
    ConfigError,
    NameTaken,
    NotFound,
    StoreCorrupt,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
)
from penstock.core.ids import BlobId, LogId
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs, open_blobs
from penstock.store.database import Database, open_database
from penstock.store.erasure import Erasure
from penstock.store.logs.sql_log import SqlLog
from penstock.store.repair import check
from penstock.store.upkeep.backup_folder import Backup
from penstock.store.upkeep.contents import drifted, named_blobs
from penstock.store.upkeep.restore import RestoreTarget, held_alone, restore, target_of
from penstock.testing.clock import FakeClock
from tests.kit.backups import made, silent
from tests.kit.log_entries import CHAT, held, live_a_little, note, opened

OTHER = LogId("conv_other")


@pytest.fixture
async def backup(tmp_path: Path, clock: FakeClock) -> Path:
    """A backup of three logs with two large bodies."""
    database = await open_database(
        f"sqlite:///{tmp_path}/first/penstock.db", limits=Limits(body_bytes=200)
    )
    blobs = open_blobs(str(tmp_path / "first" / "blobs"), clock)
    await live_a_little(SqlLog(database, blobs, clock), clock)
    await made(database, blobs, tmp_path / "backup")
    await database.close()
    return tmp_path / "backup"


@pytest.fixture
def target(tmp_path: Path, clock: FakeClock) -> RestoreTarget:
    blobs = open_blobs(str(tmp_path / "second" / "blobs"), clock)
    return RestoreTarget(tmp_path / "second" / "penstock.db", blobs)


@pytest.fixture
async def old(target: RestoreTarget, clock: FakeClock) -> AsyncIterator[Database]:
    """A database in the place of the target, with one other log; open."""
    database = await open_database(f"sqlite:///{target.file}")
    await SqlLog(database, target.blobs, clock).send(OTHER, [opened()])
    yield database
    await database.close()


async def put(backup: Path, target: RestoreTarget, *, is_forced: bool = False) -> Backup:
    return await restore(backup, target, is_forced=is_forced, progress=silent)


def log_ids(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT log_id FROM logs ORDER BY log_id").fetchall()
    return [each for (each,) in rows]


async def test_a_backup_is_restored_with_its_blobs(
    backup: Path, target: RestoreTarget, clock: FakeClock
) -> None:
    found = await put(backup, target)
    assert (found.logs, found.blobs) == (3, 2)
    assert target.file.stat().st_mode & 0o777 == 0o600
    database = await open_database(f"sqlite:///{target.file}")
    assert (await check(database)).problems == ()
    assert await drifted(database, target.blobs, most_events=100) == (3, [])
    for blob_id in await named_blobs(database, target.blobs):
        assert await target.blobs.get(blob_id)
    log = SqlLog(database, target.blobs, clock)
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    await log.append(lease, [note("the restored log goes on")])
    await database.close()


async def test_an_existing_database_is_replaced_only_by_force(
    backup: Path, target: RestoreTarget, old: Database
) -> None:
    await old.close()
    with pytest.raises(NameTaken, match="--force replaces it"):
        await put(backup, target)
    assert log_ids(target.file) == [OTHER]
    await put(backup, target, is_forced=True)
    assert log_ids(target.file) == ["conv_1", "conv_2", "task_call"]
    await put(backup, target, is_forced=True)
    assert log_ids(target.file) == ["conv_1", "conv_2", "task_call"]


async def test_a_database_that_a_process_has_open_is_not_replaced(
    backup: Path, target: RestoreTarget, old: Database
) -> None:
    """That process would go on writing to a file that has no name any more."""
    with pytest.raises(StoreLocked, match=r"another process has .* open. Stop `penstock serve`"):
        await put(backup, target, is_forced=True)
    assert log_ids(target.file) == [OTHER]
    await SqlLog(old, target.blobs, FakeClock()).send(LogId("conv_new"), [opened()])


async def test_the_log_of_an_old_database_is_not_applied_to_the_new_one(
    backup: Path, target: RestoreTarget, old: Database, tmp_path: Path
) -> None:
    """As after a kill: the write-ahead log of the old database is still beside it."""
    for ending in ("", "-wal"):
        name = f"{target.file.name}{ending}"
        (tmp_path / name).write_bytes((target.file.parent / name).read_bytes())
    await old.close()
    for ending in ("", "-wal"):
        (tmp_path / f"{target.file.name}{ending}").rename(f"{target.file}{ending}")
    await put(backup, target, is_forced=True)
    assert log_ids(target.file) == ["conv_1", "conv_2", "task_call"]


@pytest.mark.parametrize("is_forced", [False, True])
async def test_a_log_whose_database_is_gone_is_not_applied_to_the_new_one(
    backup: Path, target: RestoreTarget, old: Database, *, is_forced: bool
) -> None:
    """After a crash somebody deletes the database alone, and SQLite finds its log by the name."""
    left = target.file.with_name("penstock.db-wal")
    content = left.read_bytes()
    await old.close()
    target.file.unlink()
    left.write_bytes(content)
    await put(backup, target, is_forced=is_forced)
    assert OTHER not in log_ids(target.file)
    assert not left.exists()


async def test_a_damaged_database_can_be_replaced(backup: Path, target: RestoreTarget) -> None:
    for content in (b"no database" * 1000, b""):
        target.file.write_bytes(content)
        target.file.with_name("penstock.db-wal").write_bytes(b"rest")
        await put(backup, target, is_forced=True)
        assert log_ids(target.file) == ["conv_1", "conv_2", "task_call"]


@pytest.mark.parametrize("name", ["penstock.db", "backup.json", "blobs"])
async def test_a_damaged_backup_changes_nothing(
    name: str, backup: Path, target: RestoreTarget, old: Database
) -> None:
    await old.close()
    path = backup / name
    if path.is_dir():
        path = min(path.iterdir())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt):
        await put(backup, target, is_forced=True)
    assert log_ids(target.file) == [OTHER]
    assert list((target.file.parent / "blobs").iterdir()) == []


async def test_a_folder_that_is_no_backup_is_refused(tmp_path: Path, target: RestoreTarget) -> None:
    with pytest.raises(NotFound, match="is not a backup"):
        await put(tmp_path / "nothing", target)
    assert not target.file.exists()


class Full(Blobs):
    """Blobs on a disk that fills up."""

    async def put(self, data: bytes) -> BlobId:
        """Store the first one, and refuse the next."""
        if self.folder is not None and [*self.folder.iterdir()]:
            raise StoreFull
        return await super().put(data)


async def test_a_full_disk_leaves_the_old_state(
    backup: Path, target: RestoreTarget, old: Database, tmp_path: Path
) -> None:
    await old.close()
    full = Full(open_blobs(str(tmp_path / "second" / "blobs"))._objects)  # noqa: SLF001
    with pytest.raises(StoreFull):
        await put(backup, RestoreTarget(target.file, full), is_forced=True)
    assert log_ids(target.file) == [OTHER]
    assert [each.name for each in target.file.parent.iterdir() if each.name[0] == "."] == []


async def test_a_place_that_cannot_be_written_is_reported(
    backup: Path, target: RestoreTarget, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("a file")
    wrong = RestoreTarget(tmp_path / "file" / "penstock.db", target.blobs)
    with pytest.raises(StoreReadOnly, match="the backup cannot be restored to"):
        await put(backup, wrong)


async def test_what_was_erased_after_a_restore_keeps_shared_bytes(
    tmp_path: Path, target: RestoreTarget, clock: FakeClock
) -> None:
    """The marks of shared bytes are part of the backup."""
    database = await open_database(
        f"sqlite:///{tmp_path}/first/penstock.db", limits=Limits(body_bytes=200)
    )
    blobs = open_blobs("memory:///", clock)
    log = SqlLog(database, blobs, clock)
    await log.append(await held(log), [note("x" * 500)])
    await log.send(OTHER, [opened()])
    lease = await log.acquire(OTHER, "me")
    assert lease is not None
    await log.append(lease, [note("x" * 500)])
    await made(database, blobs, tmp_path / "backup")
    await database.close()
    await put(tmp_path / "backup", target)
    restored = await open_database(f"sqlite:///{target.file}")
    await Erasure(restored, target.blobs, clock).erase_log(CHAT)
    assert len(await SqlLog(restored, target.blobs, clock).read(OTHER)) == 2
    await restored.close()


def test_a_restore_writes_files_of_sqlite_only() -> None:
    with pytest.raises(ConfigError, match="penstock move --to URL"):
        target_of("postgresql://ann@host/name", open_blobs("memory:///"))


def test_a_file_that_is_held_alone_cannot_be_opened(tmp_path: Path) -> None:
    file = tmp_path / "one.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE one (a)")
    with (
        held_alone(file),
        closing(sqlite3.connect(file, timeout=0)) as connection,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        connection.execute("SELECT * FROM one")
