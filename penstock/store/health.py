"""Whether a database is sound: what its engine says of the file, and how much there is."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from penstock.core.errors import StoreCorrupt
from penstock.store.database import Database
from penstock.store.tables import REVISION, events, logs

_SOUND = "ok"


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
