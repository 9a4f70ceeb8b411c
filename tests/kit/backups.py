"""Backups of databases, made without a command, and files that a disk damaged."""

import sqlite3
from contextlib import closing
from pathlib import Path

from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.upkeep.backup import BackupWriter
from penstock.store.upkeep.backup_folder import Backup
from penstock.testing.clock import FakeClock


def damage_file(file: Path, table: str = "web_links") -> None:
    """Overwrite the beginning of a page of a SQLite file that belongs to a table."""
    with closing(sqlite3.connect(file)) as connection:
        ((page,),) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        ).fetchall()
        ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    content = bytearray(file.read_bytes())
    content[(page - 1) * size : (page - 1) * size + 2048] = b"\xff" * 2048
    file.write_bytes(content)


def silent(what: str, done: int, total: int) -> None:
    """Show no progress."""


async def made(database: Database, blobs: Blobs, folder: Path) -> Backup:
    """Back a database up into a new folder."""
    writer = BackupWriter(database, blobs, FakeClock(), progress=silent, version="1.0")
    return await writer.write(folder)
