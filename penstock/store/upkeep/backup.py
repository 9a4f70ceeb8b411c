"""Copies a database with its blobs into a folder while it is in use, and verifies the copy.

Guarantees: a backup is one moment of the database, and has every blob that the copied rows name. It
is complete when its folder has its name: until then the folder has another one. Text that was
erased before the backup began is not in it.

How it works. SQLite is copied in steps of 1 MiB inside one read transaction, so writers continue
and no step has to be repeated; only the write-ahead log grows meanwhile. Postgres is copied into a
file of SQLite (`postgres_copy.py`). Then the blobs are copied that the copy names. An erasure may
delete one of them before that: the database is then copied again. In the copy no log has a lease,
and unfinished replies are dropped. At the end SQLite checks the file, a sample of the logs is
folded, and `backup_folder.py` writes the sums of all files.

Relies on: a blob never changes, and is stored before the event that names it. A rename of a folder
is atomic. Proof: tests/store/upkeep/test_backup.py, tests/chaos/test_backups.py.
"""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Collection
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from penstock.core.clock import Clock, to_iso
from penstock.core.errors import (
    ConfigError,
    NameTaken,
    NotFound,
    StoreCorrupt,
    StoreError,
)
from penstock.core.exhaustion import disk_failure
from penstock.core.ids import BlobId, new_id
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs, Disk, open_blobs
from penstock.store.database import Database, Opening, file_of, open_database, parse_url, place_of
from penstock.store.failures import failure_of
from penstock.store.repair import check
from penstock.store.schema import MOVED, MOVING, marks_of
from penstock.store.tables import REVISION, events, logs, secrets
from penstock.store.upkeep.backup_folder import (
    BLOBS,
    DATABASE,
    SHARED,
    Backup,
    Progress,
    check_space,
    finish,
    sums_of,
    too_new,
    write_file,
)
from penstock.store.upkeep.contents import drifted, named_blobs
from penstock.store.upkeep.postgres_copy import copy_postgres

_STEP_PAGES = 256
_PAUSE = 0.002
"""Seconds between two steps, so that the disk serves others in between."""
_ATTEMPTS = 5
_SAMPLE_LOGS, _SAMPLE_EVENTS = 200, 20_000
_REVISION = "SELECT version_num FROM alembic_version"


class BackupWriter:
    """Makes one backup."""

    def __init__(
        self, database: Database, blobs: Blobs, clock: Clock, *, progress: Progress, version: str
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._progress = progress
        self._version = version

    async def write(self, folder: Path) -> Backup:
        """Write a backup into a new folder. Raises NameTaken, StoreCorrupt, or a StoreError."""
        part = folder.parent / f".{folder.name}.{new_id('part')}"
        try:
            await asyncio.to_thread(_make_folders, part, folder)
            backup = await self._fill(part)
            await asyncio.to_thread(finish, part, folder, backup)
        except OSError as error:
            raise disk_failure(error, f"the backup {folder} cannot be written") from error
        finally:
            await asyncio.to_thread(shutil.rmtree, part, ignore_errors=True)
        return backup

    async def _fill(self, part: Path) -> Backup:
        missing: set[BlobId] | None = None
        for _ in range(_ATTEMPTS):
            await self._copy_database(part / DATABASE)
            copy = await open_database(f"sqlite:///{part / DATABASE}", how=Opening.AS_IT_IS)
            try:
                lost = await self._copy_blobs(copy, part / BLOBS)
                if lost and lost != missing:
                    # erased since the copy was made, or lost long ago: a new copy tells
                    missing = lost
                    continue
                return await self._verified(copy, part, lost)
            finally:
                await copy.close()
        raise StoreError("blobs were erased while each of 5 copies was made; try again later")

    async def _copy_database(self, target: Path) -> None:
        if self._database.dialect == "sqlite":
            await self._database.read(partial(_copy, target, self._progress))
        else:
            await copy_postgres(self._database, target, self._progress)
        await asyncio.to_thread(_settle, target)

    async def _copy_blobs(self, copy: Database, folder: Path) -> set[BlobId]:
        """Copy the blobs that the copy names, and drop others. Return those that do not exist."""
        named = await named_blobs(copy, self._blobs)
        missing = set[BlobId]()
        for done, (blob_id, times) in enumerate(named.items()):
            self._progress("blobs", done, len(named))
            try:
                data = await self._blobs.get(blob_id)
            except (NotFound, StoreCorrupt):
                missing.add(blob_id)
                continue
            # An erasure deletes bytes without this mark as soon as one event loses them.
            is_shared = times > 1 or await self._blobs.is_shared(blob_id)
            await asyncio.to_thread(_write_blob, folder, blob_id, data, is_shared=is_shared)
        self._progress("blobs", len(named), len(named))
        await asyncio.to_thread(_drop_others, folder, named.keys())
        return missing

    async def _verified(self, copy: Database, part: Path, lost: Collection[BlobId]) -> Backup:
        self._progress("verifying", 0, 1)
        if problems := (await check(copy)).problems:
            raise StoreCorrupt(
                f"{self._database.place} is damaged, so no backup was made: {'; '.join(problems)}."
                " Restore an earlier backup"
            )
        counts = await copy.read(_counts)
        copied = Blobs(Disk(part / BLOBS))
        _, drift = await drifted(copy, copied, most_events=_SAMPLE_EVENTS, most_logs=_SAMPLE_LOGS)
        sums = await asyncio.to_thread(sums_of, part)
        self._progress("verifying", 1, 1)
        return Backup(
            penstock=self._version,
            made_at=to_iso(self._clock.now()),
            missing=tuple(sorted(lost)),
            problems=tuple(drift),
            **counts,
            **sums,
        )


def _copy(target: Path, progress: Progress, connection: Connection) -> None:
    """Copy a SQLite database of another connection, as of one moment."""
    target.unlink(missing_ok=True)
    driver: Any = connection.connection.dbapi_connection
    pause = threading.Event()

    def step(_: int, left: int, total: int) -> None:
        progress("database", total - left, total)
        pause.wait(_PAUSE)

    connection.exec_driver_sql("BEGIN")
    try:
        # The first read fixes the moment. Without this transaction SQLite begins the copy again
        # whenever another process has written between two steps, and under load never ends.
        revision = connection.exec_driver_sql(_REVISION).scalar_one()
        if str(revision) > REVISION:
            raise too_new(f"the database is at revision {revision}")
        if MOVING in marks_of(connection):
            raise ConfigError("a move of this database is not complete; repeat or end it first")
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        size = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        check_space(target.parent, pages * size)
        copy = sqlite3.connect(target, isolation_level=None)
        try:
            driver.backup(copy, pages=_STEP_PAGES, progress=step)
        finally:
            copy.close()
    except sqlite3.Error as error:
        raise failure_of(error, str(target)) or error from error
    finally:
        connection.exec_driver_sql("ROLLBACK")


def _settle(file: Path) -> None:
    """Release all leases of a copy and drop unfinished replies: its tasks resume where they are."""
    try:
        with closing(sqlite3.connect(file, isolation_level=None)) as copy:
            _release(copy)
    except sqlite3.Error as error:
        raise failure_of(error, str(file)) or error from error


def _release(copy: sqlite3.Connection) -> None:
    copy.execute("PRAGMA secure_delete = ON")
    copy.execute("BEGIN IMMEDIATE")
    copy.execute("UPDATE logs SET owner = NULL, lease_until = 0 WHERE owner IS NOT NULL")
    copy.execute("UPDATE logs SET followed_until = 0 WHERE followed_until > 0")
    copy.execute("DELETE FROM deltas")
    # a restored copy of a database that was moved is meant to be used
    copy.execute(f"DELETE FROM installation WHERE name = '{MOVED}'")  # noqa: S608
    copy.execute("COMMIT")
    copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a write-ahead log beside it


def _counts(connection: Connection) -> dict[str, Any]:
    counts = {
        table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for table in (logs, events, secrets)
    }
    revision = connection.exec_driver_sql(_REVISION).scalar_one()
    return {**counts, "revision": str(revision)}


# ---- files ----


def _make_folders(part: Path, folder: Path) -> None:
    if folder.exists() or folder.is_symlink():
        raise NameTaken(f"{folder} exists; name a folder that does not exist yet")
    part.parent.mkdir(parents=True, exist_ok=True)
    # the database has personal data and the key that signs links
    part.mkdir(mode=0o700)
    (part / BLOBS).mkdir(mode=0o700)


def _write_blob(folder: Path, blob_id: BlobId, data: bytes, *, is_shared: bool) -> None:
    path = folder / blob_id
    if not path.exists():
        write_file(path, data)
    if is_shared:
        write_file(folder / f"{blob_id}{SHARED}", b"0")


def _drop_others(folder: Path, named: Collection[BlobId]) -> None:
    """Delete the blobs that an earlier attempt copied and that were erased since then."""
    for path in folder.iterdir():
        if path.name.removesuffix(SHARED) not in named:
            path.unlink()


async def open_unprepared(url: str, blob_place: str, limits: Limits) -> tuple[Database, Blobs]:
    """Open a database that exists, without creating or upgrading it. Raises ConfigError."""
    address = parse_url(url)
    file, is_sqlite = file_of(address), address.get_backend_name() == "sqlite"
    if file is None and is_sqlite:
        raise ConfigError(f"`penstock backup` copies no database in memory: {place_of(address)}")
    if file is not None and not await asyncio.to_thread(file.is_file):
        raise ConfigError(f"there is no database at {file}")
    database = await open_database(url, limits=limits, how=Opening.AS_IT_IS)
    return database, open_blobs(blob_place)
