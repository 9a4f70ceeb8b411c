"""Whether a database is sound: what its engine says of the file, and how much there is."""

from dataclasses import dataclass

from sqlalchemy import func, select

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
    problems: list[str] = []
    if database.dialect == "sqlite":
        said = await database.read(
            lambda connection: (
                connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
            )
        )
        problems = [str(each) for each in said if each != _SOUND]
    counts = [
        await database.read(
            lambda connection, table=table: connection.execute(
                select(func.count()).select_from(table)
            ).scalar_one()
        )
        for table in (logs, events)
    ]
    return Health(revision=REVISION, logs=counts[0], events=counts[1], problems=tuple(problems))
