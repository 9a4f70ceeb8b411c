"""Making and checking the tables of a database."""

import pytest
from sqlalchemy import Connection, text

from penstock.core.errors import StoreCorrupt
from penstock.store.database import Database
from penstock.store.schema import prepare
from penstock.store.tables import REVISION, metadata

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
    with pytest.raises(StoreCorrupt, match=r"here has tables of another program \(agent_settings"):
        await database.write(lambda each: prepare(each, "here", b""))
