"""Backups of databases, made without a command."""

from pathlib import Path

from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.upkeep.backup import BackupWriter
from penstock.store.upkeep.backup_folder import Backup
from penstock.testing.clock import FakeClock


def silent(what: str, done: int, total: int) -> None:
    """Show no progress."""


async def made(database: Database, blobs: Blobs, folder: Path) -> Backup:
    """Back a database up into a new folder."""
    writer = BackupWriter(database, blobs, FakeClock(), progress=silent, version="1.0")
    return await writer.write(folder)
