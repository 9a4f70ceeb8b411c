"""Whether a database is sound: what its engine says of the file, and how much there is."""

from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, func, select

from penstock.core.codec import decode
from penstock.core.errors import StoreCorrupt
from penstock.store.database import Database
from penstock.store.tables import REVISION, events, logs

_SOUND = "ok"
MOST_READ = 100_000
MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What was found."""

    revision: str
    """Of the tables, as this version wants them."""
    logs: int
    events: int
    problems: tuple[str, ...] = ()
    """What the engine says is broken; SQLite checks its file, Postgres checks its own."""


async def check(database: Database) -> Health:
    """Return how a database is; it is read once, wholly."""
    try:
        problems = await database.read(_problems)
        sizes = await database.read(_sizes)
    except StoreCorrupt as error:
        return Health(revision=REVISION, logs=0, events=0, problems=(str(error),))
    return Health(revision=REVISION, logs=sizes[0], events=sizes[1], problems=problems)


async def read_back(database: Database, *, most: int = MOST_READ) -> tuple[int, tuple[str, ...]]:
    """Read the newest events; returns how many, and where some do not read back."""
    return await database.read(partial(_read_back, most))


def _read_back(most: int, connection: Connection) -> tuple[int, tuple[str, ...]]:
    read, broken = 0, list[str]()
    own = select(events.c.log_id, events.c.seq, events.c.kind, events.c.body)
    newest = own.where(events.c.blob_id.is_(None)).order_by(events.c.at.desc()).limit(most)
    for row in connection.execute(newest):
        read += 1
        try:
            decode(row.kind, row.body)
        except ValueError:
            broken.append(f"event {row.seq} of log {row.log_id!r}")
    return read, tuple(sorted(broken)[:MOST_NAMED])


def _problems(connection: Connection) -> tuple[str, ...]:
    if connection.dialect.name != "sqlite":
        return ()
    said = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
    return tuple(str(each) for each in said if each != _SOUND)


def _sizes(connection: Connection) -> tuple[int, ...]:
    return tuple(
        connection.execute(select(func.count()).select_from(table)).scalar_one()
        for table in (logs, events)
    )
