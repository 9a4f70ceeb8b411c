"""Copies a database with its blobs into a folder while it is in use, and verifies the copy.

Guarantees: a backup is one moment of the database, and has every blob that the copied rows name. It
is complete when its folder has its name: until then the folder has another one. Text that was
erased before the backup began is not in it.

How it works. SQLite is copied in steps of 1 MiB inside one read transaction, so writers continue
and no step has to be repeated; only the write-ahead log grows meanwhile. Then the blobs are copied
that the copy names. An erasure may delete one of them before that: the database is then copied
again. In the copy nobody holds a lease, and unfinished replies are dropped. At the end SQLite
checks the file, a sample of the logs is folded, and `backup.json` gets the sums of all files.

Relies on: a blob never changes, and is stored before the event that names it. A rename of a folder
is atomic. Proof: tests/store/upkeep/test_backup.py, tests/chaos/test_backups.py.
"""

import asyncio
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, func, select

from penstock.core.clock import Clock, to_iso
from penstock.core.errors import (
    ConfigError,
    NameTaken,
    NotFound,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreTooNew,
)
from penstock.core.exhaustion import disk_failure
from penstock.core.ids import BlobId, new_id
from penstock.core.json_values.json_text import parse_json
from penstock.core.limits import MIB, Limits
from penstock.store.blobs import Blobs, Disk, open_blobs
from penstock.store.database import Database, open_database
from penstock.store.failures import failure_of
from penstock.store.repair import check
from penstock.store.tables import REVISION, events, logs, secrets
from penstock.store.upkeep.contents import drifted, named_blobs

FORMAT = 1
MANIFEST = "backup.json"
DATABASE = "penstock.db"
BLOBS = "blobs"
_STEP_PAGES = 256
_PAUSE = 0.002
"""Seconds between two steps, so that the disk serves others in between."""
_ATTEMPTS = 5
_SAMPLE_LOGS, _SAMPLE_EVENTS = 200, 20_000
_REVISION = "SELECT version_num FROM alembic_version"
_SHARED = ".shared"

Progress = Callable[[str, int, int], None]
"""Receives what is being done, how much of it is done, and how much there is."""


class Backup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup contains: `backup.json`."""

    format: int = FORMAT
    penstock: str
    """The version that made it."""
    revision: str
    """The revision of its tables."""
    made_at: str
    logs: int
    events: int
    blobs: int
    bytes: int
    """The size of all its files."""
    secrets: int
    """Encrypted secrets; the key is not in the backup."""
    sha256: str
    """Of the file of the database."""
    blobs_sha256: str
    """Of the sorted names of all files of blobs; each name is the hash of the file."""
    missing: tuple[str, ...] = ()
    """Blobs that were lost before the backup was made."""
    problems: tuple[str, ...] = ()
    """Rows of lists that contradict their logs, and logs that cannot be read."""


class _Signed(Struct, frozen=True, forbid_unknown_fields=True):
    backup: Backup
    sha256: str


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
            await asyncio.to_thread(_finish, part, folder, backup)
        except OSError as error:
            raise disk_failure(error, f"the backup {folder} cannot be written") from error
        finally:
            await asyncio.to_thread(shutil.rmtree, part, ignore_errors=True)
        return backup

    async def _fill(self, part: Path) -> Backup:
        missing: set[BlobId] | None = None
        for _ in range(_ATTEMPTS):
            await self._copy_database(part / DATABASE)
            copy = await open_database(f"sqlite:///{part / DATABASE}", prepares=False)
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
        await self._database.read(partial(_copy, target, self._progress))

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
        sums = await asyncio.to_thread(_sums, part)
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
    """Copy a SQLite database of another connection, as of one moment, and prepare the copy."""
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
            raise _too_new(f"the database is at revision {revision}")
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        size = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        check_space(target.parent, pages * size)
        copy = sqlite3.connect(target, isolation_level=None)
        try:
            driver.backup(copy, pages=_STEP_PAGES, progress=step)
            _settle(copy)
        finally:
            copy.close()
    except sqlite3.Error as error:
        raise failure_of(error, str(target)) or error from error
    finally:
        connection.exec_driver_sql("ROLLBACK")


def _settle(copy: sqlite3.Connection) -> None:
    """Release all leases of a copy and drop unfinished replies: its tasks resume where they are."""
    copy.execute("PRAGMA secure_delete = ON")
    copy.execute("BEGIN IMMEDIATE")
    copy.execute("UPDATE logs SET owner = NULL, lease_until = 0 WHERE owner IS NOT NULL")
    copy.execute("UPDATE logs SET followed_until = 0 WHERE followed_until > 0")
    copy.execute("DELETE FROM deltas")
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
        _write(path, data)
    if is_shared:
        _write(folder / f"{blob_id}{_SHARED}", b"0")


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _drop_others(folder: Path, named: Collection[BlobId]) -> None:
    """Delete the blobs that an earlier attempt copied and that were erased since then."""
    for path in folder.iterdir():
        if path.name.removesuffix(_SHARED) not in named:
            path.unlink()


def _sums(part: Path) -> dict[str, Any]:
    """Return the hashes of all files, their number and size. Hashes every file."""
    blobs = part / BLOBS
    names = sorted(each.name for each in blobs.iterdir())
    for name in names:
        if not name.endswith(_SHARED) and hash_of(blobs / name) != name:
            raise StoreCorrupt(f"{blobs / name} contains other bytes than were stored")
    files = [part / DATABASE, *(blobs / name for name in names)]
    return {
        "sha256": hash_of(part / DATABASE),
        "blobs_sha256": sha256("\n".join(names).encode()).hexdigest(),
        "blobs": sum(not name.endswith(_SHARED) for name in names),
        "bytes": sum(each.stat().st_size for each in files),
    }


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _finish(part: Path, folder: Path, backup: Backup) -> None:
    """Write the manifest, wait until all is on disk, and give the folder its name."""
    signed = _Signed(backup, _signature(backup))
    _write(part / MANIFEST, msgspec.json.format(msgspec.json.encode(signed), indent=2))
    with (part / DATABASE).open("rb") as file:
        os.fsync(file.fileno())
    for place in (part / BLOBS, part):
        sync_folder(place)
    part.rename(folder)  # fails if a folder with content has this name by now
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the entries of a folder are on disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _signature(backup: Backup) -> str:
    return sha256(msgspec.json.encode(backup)).hexdigest()


def _too_new(found: str) -> StoreTooNew:
    return StoreTooNew(
        f"{found}, this penstock knows up to {REVISION}. Upgrade penstock; nothing was changed."
    )


# ---- reading ----


def read_backup(folder: Path) -> Backup:
    """Return what a backup contains, after its version was checked.

    Raises NotFound if the folder is no backup, StoreTooNew, or StoreCorrupt.
    """
    path = folder / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFound(
            f"{folder} is no backup: it has no {MANIFEST}. `penstock backup` makes one"
        ) from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _damaged(path) from error
    with suppress(ValueError, RecursionError):
        found = parse_json(text)
        number = found["backup"]["format"] if _has_format(found) else FORMAT
        if isinstance(number, int) and number > FORMAT:
            raise StoreTooNew(
                f"{folder} has the format {number}, this penstock knows up to {FORMAT}. Upgrade"
                " penstock; nothing was changed."
            )
        signed = msgspec.convert(found, _Signed)
        if signed.sha256 == _signature(signed.backup):
            if signed.backup.revision > REVISION:
                made = f"{folder} was made by penstock {signed.backup.penstock}"
                raise _too_new(f"{made}: its tables are at revision {signed.backup.revision}")
            return signed.backup
    raise _damaged(path)


def _has_format(found: Any) -> bool:
    return isinstance(found, dict) and "format" in found.get("backup", ())


def verify_backup(folder: Path, progress: Progress) -> Backup:
    """Read every file of a backup and compare it with its sum. Raises as `read_backup` does."""
    backup = read_backup(folder)
    progress("verifying", 0, 1)
    try:
        sums = _sums(folder)
    except OSError as error:
        raise StoreCorrupt(f"{folder} is not complete: {error}") from error
    for name, value in sums.items():
        if getattr(backup, name) != value:
            raise _damaged(folder / (BLOBS if "blobs" in name else DATABASE))
    progress("verifying", 1, 1)
    return backup


def _damaged(path: Path) -> StoreCorrupt:
    return StoreCorrupt(
        f"{path} is damaged: it contains other bytes than the backup had. Use another backup;"
        " nothing was changed."
    )


def check_space(folder: Path, needed: int) -> None:
    """Raise StoreFull if the disk of a folder has less space than needed."""
    place = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise StoreFull(
            f"{needed // MIB:,} MiB are needed at {place}, {free // MIB:,} MiB are free"
        )


async def open_unprepared(url: str, blob_place: str, limits: Limits) -> tuple[Database, Blobs]:
    """Open a database that exists, without creating or upgrading anything. Raises ConfigError."""
    database = await open_database(url, limits=limits, prepares=False)
    if database.file is not None and not database.file.is_file():
        await database.close()
        raise ConfigError(f"there is no database at {database.place}")
    return database, open_blobs(blob_place)
