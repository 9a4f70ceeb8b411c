"""Puts a backup in the place of a project's database and blobs.

Guarantees: a restore that is cut at any point leaves the project with no database or with the old
one, never with half of another; blobs that were already copied are the only trace, and no event
names them. An existing database is replaced only with `is_forced`, and never while another process
has it open. Every byte of the backup is verified before anything is written.

How it works. Blobs are added first, under the hashes of their content, so they change nothing that
exists. The database is copied to a file beside its place, then renamed: that is the moment when the
restore happens. SQLite would apply a write-ahead log that lies beside a file of the same name, so
the old database leaves this mode first, which SQLite allows only if no other process has the file
open. A log whose database is gone is deleted.

Relies on: a rename replaces a file atomically. Proof: tests/store/upkeep/test_restore.py.
"""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from penstock.core.errors import ConfigError, NameTaken, StoreCorrupt, StoreLocked
from penstock.core.exhaustion import disk_failure
from penstock.core.ids import BlobId, new_id
from penstock.store.blobs import Blobs
from penstock.store.database import file_of, parse_url
from penstock.store.failures import failure_of
from penstock.store.upkeep.backup_folder import (
    BLOBS,
    DATABASE,
    SHARED,
    Backup,
    Progress,
    check_space,
    sync_folder,
    verify_backup,
)

_BESIDE = ("-wal", "-shm", "-journal")
"""Files that SQLite keeps beside a database."""


class RestoreTarget(Struct, frozen=True):
    """Where a backup is restored."""

    file: Path
    """The file of the database."""
    blobs: Blobs


async def restore(
    folder: Path, target: RestoreTarget, *, is_forced: bool, progress: Progress
) -> Backup:
    """Restore a backup. Raises NameTaken if there is a database and `is_forced` is not given.

    Also raises NotFound, StoreCorrupt and StoreTooNew about the backup, and StoreLocked,
    StoreFull and StoreReadOnly about the target.
    """
    # first, because verifying reads every byte
    if target.file.exists() and not is_forced:
        raise _exists(target.file)
    backup = await asyncio.to_thread(verify_backup, folder, progress)
    part = target.file.parent / f".{target.file.name}.{new_id('part')}"
    try:
        await asyncio.to_thread(target.file.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(check_space, target.file.parent, backup.bytes)
        await _add_blobs(folder / BLOBS, target.blobs, progress)
        await asyncio.to_thread(_copy_file, folder / DATABASE, part)
        await asyncio.to_thread(_put_in_place, part, target.file, is_forced=is_forced)
    except OSError as error:
        message = f"the backup cannot be restored to {target.file.parent}"
        raise disk_failure(error, message) from error
    finally:
        with suppress(OSError):  # the error that ended the restore says more
            await asyncio.to_thread(part.unlink)
    return backup


async def _add_blobs(folder: Path, blobs: Blobs, progress: Progress) -> None:
    names = sorted(each.name for each in await asyncio.to_thread(lambda: [*folder.iterdir()]))
    for done, name in enumerate(names):
        progress("blobs", done, len(names))
        if name.endswith(SHARED):
            await blobs.share(BlobId(name.removesuffix(SHARED)))
        else:
            await blobs.put(await asyncio.to_thread((folder / name).read_bytes))
    progress("blobs", len(names), len(names))


def _copy_file(source: Path, target: Path) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with source.open("rb") as reader, os.fdopen(descriptor, "wb") as writer:
        shutil.copyfileobj(reader, writer, 2**20)
        writer.flush()
        os.fsync(writer.fileno())


def _put_in_place(part: Path, file: Path, *, is_forced: bool) -> None:
    """Give the copy its name. The old file, if there is one, is held until then."""
    if not file.exists():
        _drop_beside(file)
    if not is_forced:
        try:
            file.hardlink_to(part)  # unlike a rename, it fails if the name was taken meanwhile
        except FileExistsError:
            raise _exists(file) from None
    elif file.exists():
        with held_alone(file):
            part.replace(file)
    else:
        part.replace(file)
    sync_folder(file.parent)


@contextmanager
def held_alone(file: Path) -> Iterator[None]:
    """Hold a SQLite database that no other process has open, as one file without a log beside it.

    A damaged database cannot be opened by others either: then only the files beside it are removed,
    so that they are not applied to the next file of this name. Raises StoreLocked.
    """
    connection = sqlite3.connect(file, timeout=0, isolation_level=None)
    try:
        if not _try_alone(connection, file):
            connection.close()
            _drop_beside(file)
        yield
    finally:
        connection.close()


def _drop_beside(file: Path) -> None:
    """Delete what a missing or damaged database left: SQLite would apply it to the next one."""
    for ending in _BESIDE:
        file.with_name(f"{file.name}{ending}").unlink(missing_ok=True)


def _try_alone(connection: sqlite3.Connection, file: Path) -> bool:
    """Lock a database, and leave its write-ahead log. Return False if the file is damaged."""
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # leaving this mode writes the log into the file, and needs the file for itself
        mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        failure = failure_of(error, str(file))
        if isinstance(failure, StoreCorrupt):
            return False
        if isinstance(failure, StoreLocked):
            raise _in_use(file) from error
        raise failure or error from error
    if mode != ("delete",):
        raise _in_use(file)
    return True


def _exists(file: Path) -> NameTaken:
    return NameTaken(
        f"{file} exists, and a restore would replace it. `penstock backup` saves it first;"
        " --force replaces it"
    )


def _in_use(file: Path) -> StoreLocked:
    return StoreLocked(
        f"another process has {file} open. Stop `penstock serve` and every other command of the"
        " project, and try again; nothing was changed."
    )


def target_of(url: str, blobs: Blobs) -> RestoreTarget:
    """Return the target for the URL of a database. Raises ConfigError if it is not a file."""
    file = file_of(parse_url(url))
    if file is None:
        raise ConfigError(
            "`penstock restore` writes SQLite files, and database_url names another database."
            " Restore to SQLite and move it: penstock move --to URL"
        )
    return RestoreTarget(file, blobs)
