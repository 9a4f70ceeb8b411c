"""A backup is read only if every byte is what it was."""

import json
from pathlib import Path

import pytest

from penstock.core.errors import NotFound, StoreCorrupt, StoreError, StoreFull, StoreTooNew
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.upkeep.backup_folder import check_space, read_backup, verify_backup
from tests.kit.backups import made, silent
from tests.kit.log_entries import held, note


@pytest.fixture
def database(in_a_file: Database) -> Database:
    return in_a_file


DAMAGES = ["penstock.db", "backup.json", "blobs"]


@pytest.mark.parametrize("name", DAMAGES)
async def test_a_flipped_byte_anywhere_is_found(
    name: str, database: Database, log: SqlLog, blobs: Blobs, tmp_path: Path
) -> None:
    await log.append(await held(log), [note("x" * 500)])
    folder = tmp_path / "one"
    await made(database, blobs, folder)
    path = folder / name
    if path.is_dir():
        (path,) = path.iterdir()
    content = bytearray(path.read_bytes())
    for place in range(0, len(content), max(len(content) // 40, 1)):
        flipped = content.copy()
        flipped[place] ^= 1
        path.write_bytes(flipped)
        with pytest.raises((StoreCorrupt, StoreTooNew)):
            verify_backup(folder, silent)
    path.write_bytes(content)
    verify_backup(folder, silent)


async def test_a_backup_that_lacks_a_file_is_refused(
    database: Database, log: SqlLog, blobs: Blobs, tmp_path: Path
) -> None:
    await log.append(await held(log), [note("x" * 500)])
    folder = tmp_path / "one"
    await made(database, blobs, folder)
    (blob,) = (folder / "blobs").iterdir()
    blob.unlink()
    with pytest.raises(StoreCorrupt, match="blobs is damaged"):
        verify_backup(folder, silent)
    (folder / "penstock.db").unlink()
    with pytest.raises(StoreCorrupt, match="not complete"):
        verify_backup(folder, silent)
    (folder / "backup.json").unlink()
    with pytest.raises(NotFound, match="is not a backup: it has no backup"):
        verify_backup(folder, silent)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("format", 2, "has the format 2, this penstock knows up to 1"),
        ("revision", "9999", "is damaged"),
    ],
)
async def test_a_backup_of_a_newer_format_is_refused(
    field: str, value: object, error: str, database: Database, blobs: Blobs, tmp_path: Path
) -> None:
    folder = tmp_path / "one"
    await made(database, blobs, folder)
    manifest = json.loads((folder / "backup.json").read_text())
    manifest["backup"][field] = value
    (folder / "backup.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match=error):
        read_backup(folder)


def test_a_disk_with_too_little_space_is_refused_before_the_copy(tmp_path: Path) -> None:
    check_space(tmp_path / "not yet", 1)
    with pytest.raises(StoreFull, match="MiB are needed at"):
        check_space(tmp_path / "not yet", 2**62)
