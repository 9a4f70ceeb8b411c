"""Gives the space of deleted rows back to the disk, in steps that delay no writer.

SQLite keeps the pages of deleted rows in its file for later rows. A database that was created with
`auto_vacuum = INCREMENTAL` can return them a few at a time: each step is one unit of the writer,
which moves at most `Pace.pages`. Older databases have to be rewritten once (`rewrite`).
Postgres does this by itself. Proof: tests/store/upkeep/test_space.py.
"""

from functools import partial
from typing import NamedTuple

from msgspec import Struct
from sqlalchemy import Connection

from penstock.core.clock import Clock
from penstock.store.database import Database


class Pace(NamedTuple):
    """How fast the file becomes smaller."""

    pages: int
    """In one step, which other writers wait for."""
    pause_seconds: float
    """After each step."""


GENTLE = Pace(64, 0.05)
"""For a server: a step is 256 KiB."""
FAST = Pace(256, 0.01)
"""For a command: a step is 1 MiB."""
_LEAST_FREE = 1024
"""Free pages from which on giving them back is worth it: 4 MiB."""
_INCREMENTAL = 2


class Space(Struct, frozen=True):
    """The pages of a SQLite file."""

    pages: int
    free: int
    page_bytes: int
    is_incremental: bool
    """Whether free pages can be returned in steps."""

    @property
    def is_wasted(self) -> bool:
        """Whether so much is free that it should be returned: 4 MiB, and a tenth of the file."""
        return self.free >= _LEAST_FREE and 10 * self.free >= self.pages


async def space_of(database: Database) -> Space | None:
    """Return the pages of the file; None if the database is not a file of SQLite."""
    return None if database.file is None else await database.read(_space)


async def give_back(
    database: Database, clock: Clock, pace: Pace = GENTLE, *, least: int = 0
) -> int:
    """Give free pages back until at most `least` are left. Return how many. Raises StoreError.

    Does nothing if the database is not incremental.
    """
    space = await space_of(database)
    if space is None or not space.is_incremental:
        return 0
    left = space.free
    while left > least:
        await database.write(partial(_step, pace.pages))
        now = await space_of(database)
        if now is None or now.free >= left:  # others free pages faster than this, or none moved
            break
        left = now.free
        await clock.sleep(pace.pause_seconds)
    return space.free - left


def _space(connection: Connection) -> Space:
    names = ("page_count", "freelist_count", "page_size", "auto_vacuum")
    pages, free, size, mode = [
        connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names
    ]
    return Space(pages, free, size, mode == _INCREMENTAL)


def _step(pages: int, connection: Connection) -> None:
    cursor = connection.connection.cursor()
    # SQLite moves one page for each row of this statement, and Python's driver fetches only one
    for _ in range(pages):
        cursor.execute("PRAGMA incremental_vacuum(1)")
    cursor.close()
