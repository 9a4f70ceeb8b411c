"""The folder of a backup: its files, what `backup.json` says about them, and their verification.

Guarantees: `verify_backup` returns only if every byte of every file is what the backup had. A
folder gets its name after all of it is on disk (`finish`).

How it works. Blobs have the hash of their content as name, the manifest has the hash of the
database and of all names, and a hash of itself. Fields that this version does not know are an
error, because ignoring one would pass for a changed name.

Proof: tests/store/upkeep/test_backup_folder.py.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from penstock.core.errors import NotFound, StoreCorrupt, StoreError, StoreFull, StoreTooNew
from penstock.core.json_values.json_text import parse_json
from penstock.core.limits import MIB
from penstock.store.tables import REVISION

FORMAT = 1
MANIFEST = "backup.json"
DATABASE = "penstock.db"
BLOBS = "blobs"
SHARED = ".shared"
"""The ending of the mark of a blob that several events may name."""

Progress = Callable[[str, int, int], None]
"""Receives what is being done, how much of it is done, and how much there is."""


class Backup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of a backup, as `backup.json` has them."""

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


def write_file(path: Path, data: bytes) -> None:
    """Write a file, and wait until it is on disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sums_of(part: Path) -> dict[str, Any]:
    """Return the hashes of all files, their number and size. Hashes every file."""
    blobs = part / BLOBS
    names = sorted(each.name for each in blobs.iterdir())
    for name in names:
        if not name.endswith(SHARED) and hash_of(blobs / name) != name:
            raise StoreCorrupt(f"{blobs / name} contains other bytes than were stored")
    files = [part / DATABASE, *(blobs / name for name in names)]
    return {
        "sha256": hash_of(part / DATABASE),
        "blobs_sha256": sha256("\n".join(names).encode()).hexdigest(),
        "blobs": sum(not name.endswith(SHARED) for name in names),
        "bytes": sum(each.stat().st_size for each in files),
    }


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def finish(part: Path, folder: Path, backup: Backup) -> None:
    """Write the manifest, wait until all is on disk, and give the folder its name."""
    signed = _Signed(backup, _signature(backup))
    write_file(part / MANIFEST, msgspec.json.format(msgspec.json.encode(signed), indent=2))
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


def too_new(found: str) -> StoreTooNew:
    """Return the error for tables of a newer version."""
    return StoreTooNew(
        f"{found}, this penstock knows up to {REVISION}. Upgrade penstock; nothing was changed."
    )


# ---- reading ----


def read_backup(folder: Path) -> Backup:
    """Return what a backup contains, after its version was checked.

    Raises NotFound if the folder is not a backup, StoreTooNew, or StoreCorrupt.
    """
    path = folder / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFound(
            f"{folder} is not a backup: it has no {MANIFEST}. `penstock backup` makes one"
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
                raise too_new(f"{made}: its tables are at revision {signed.backup.revision}")
            return signed.backup
    raise _damaged(path)


def _has_format(found: Any) -> bool:
    return isinstance(found, dict) and "format" in found.get("backup", ())


def verify_backup(folder: Path, progress: Progress) -> Backup:
    """Read every file of a backup and compare it with its sum. Raises as `read_backup` does."""
    backup = read_backup(folder)
    progress("verifying", 0, 1)
    try:
        sums = sums_of(folder)
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
