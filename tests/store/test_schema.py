"""Making and checking the tables of a database."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, event, select, text

from penstock.core.errors import StoreCorrupt
from penstock.store.database import Database
from penstock.store.schema import prepare
from penstock.store.tables import REVISION, installation, metadata

DROP = [text(f"DROP TABLE {name}") for name in (*metadata.tables, "alembic_version")]


def empty(connection: Connection) -> None:
    for statement in DROP:
        connection.execute(statement)


async def test_a_new_database_has_the_newest_tables(database: Database) -> None:
    def unit(connection: Connection) -> object:
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()

    assert await database.read(unit) == [REVISION]


async def test_preparing_twice_changes_nothing(database: Database) -> None:
    first = await database.write(lambda each: prepare(each, "here", b"another"))
    assert first == database.secret


async def test_the_secret_is_the_one_that_was_there_first(database: Database) -> None:
    await database.write(empty)
    assert await database.write(lambda each: prepare(each, "here", b"first")) == b"first"
    assert await database.write(lambda each: prepare(each, "here", b"second")) == b"first"


async def test_a_table_of_that_name_without_a_revision_is_of_another_program(
    database: Database,
) -> None:
    await database.write(lambda each: each.execute(text("DROP TABLE alembic_version")))
    with pytest.raises(StoreCorrupt, match=r"of another program \(deliveries, deltas"):
        await database.write(lambda each: prepare(each, "here", b""))


async def test_the_secret_is_written_again_and_nothing_else(database: Database) -> None:
    """To write it shows at once that the database can be written."""
    other = {"name": "other", "value": b"kept"}
    await database.write(lambda each: each.execute(installation.insert().values(other)))
    written = await database.write(changes_of(lambda each: prepare(each, "here", b"another")))
    rows = await database.read(lambda each: each.execute(select(installation)).all())
    assert (written, {(row.name, bytes(row.value)) for row in rows}) == (
        1,
        {("other", b"kept"), ("secret", database.secret)},
    )


def changes_of(unit: Callable[[Connection], object]) -> Callable[[Connection], int]:
    """Return a unit that does this, and says how many rows of `installation` it updates."""

    def counted(connection: Connection) -> int:
        found: list[int] = []

        def count(*arguments: Any) -> None:
            cursor, statement = arguments[1], arguments[2]
            if "UPDATE installation" in statement:
                found.append(cursor.rowcount)

        event.listen(connection, "after_cursor_execute", count)
        unit(connection)
        return sum(found)

    return counted
