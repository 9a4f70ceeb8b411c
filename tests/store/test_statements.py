"""Statements as text, for either database, and compiled ones."""

from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Connection, select
from sqlalchemy.engine.interfaces import CacheStats

from penstock.store.database import Database, open_database
from penstock.store.statements import Statements
from penstock.store.tables import installation

NAMES = [name for name in vars(Statements) if not name.startswith("_")]
COUNT = "SELECT count(*) FROM installation"


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_marked_as_the_driver_wants_them(name: str) -> None:
    ours, theirs = (getattr(Statements(each), name) for each in ("sqlite", "postgresql"))
    assert ours.count("?") == theirs.count("%s") > 0
    assert "%" not in ours
    assert "?" not in theirs


@pytest.mark.slow("a database of its own on either server, and forty statements")
async def test_every_statement_is_one_that_the_database_understands(database: Database) -> None:
    """Whatever a spelling, a table or a column is called, and however many parameters there are."""
    statements = Statements(database.dialect)

    def unit(connection: Connection) -> object:
        for name in NAMES:
            assert _explain(connection, getattr(statements, name)), name
        return len(NAMES)

    assert await database.write(unit) == len(NAMES) >= 40


@pytest.mark.parametrize("name", NAMES)
async def test_no_statement_looks_at_every_row(sqlite: Database, name: str) -> None:
    def unit(connection: Connection) -> object:
        return _explain(connection, getattr(Statements("sqlite"), name), "QUERY PLAN")

    plan: Any = await sqlite.write(unit)
    looked = [row[-1] for row in plan]
    assert [each for each in looked if each.startswith("SCAN") and "USING" not in each] == []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("started_for", "scheduled_tasks (schedule_id=? AND created_at>?)"),
        ("running_of_schedule", "running_of_schedules (schedule_id=? AND ended_seq=?)"),
    ],
)
async def test_a_tick_does_not_read_the_tasks_that_its_schedule_ever_had(
    sqlite: Database, name: str, found: str
) -> None:
    """A schedule that is due each minute has 500,000 of them after a year."""

    def unit(connection: Connection) -> object:
        return _explain(connection, getattr(Statements("sqlite"), name), "QUERY PLAN")

    ((*_, plan),) = cast("list[Any]", await sqlite.write(unit))
    assert found in plan


async def test_the_driver_and_sqlalchemy_see_one_transaction(database: Database) -> None:
    def unit(connection: Connection) -> object:
        connection.connection.cursor().execute("DELETE FROM installation")
        return connection.exec_driver_sql(COUNT).scalar()

    def broken(connection: Connection) -> object:
        unit(connection)
        raise KeyError

    with pytest.raises(KeyError):
        await database.write(broken)
    assert await database.write(_counted) == 1
    assert await database.write(unit) == 0
    assert await database.write(_counted) == 0


def _counted(connection: Connection) -> object:
    return connection.exec_driver_sql(COUNT).scalar()


def _explain(connection: Connection, statement: str, how: str = "") -> list[Any]:
    """Let the database plan a statement, with NULL for each parameter."""
    cursor = connection.connection.cursor()
    parameters = statement.count("?") + statement.count("%s")
    cursor.execute(f"EXPLAIN {how} {statement}", [None] * parameters)
    return list(cursor.fetchall())


async def test_databases_of_sqlite_share_compiled_statements(tmp_path: Path) -> None:
    """Compiling costs more than running; only `scrub` forgets, because values are kept with it."""
    query = select(installation.c.value).where(installation.c.name.startswith("own"))

    def find(connection: Connection) -> CacheStats:
        found = connection.execute(query)
        return found.context.cache_hit

    one, other = [await open_database(f"sqlite:///{tmp_path}/{name}.db") for name in "ab"]
    try:
        assert await one.write(find) is CacheStats.CACHE_MISS
        assert await other.read(find) is CacheStats.CACHE_HIT
        await one.scrub()
        assert await other.read(find) is CacheStats.CACHE_MISS
    finally:
        await one.close()
        await other.close()
