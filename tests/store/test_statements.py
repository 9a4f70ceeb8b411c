"""Statements as text, for either database."""

import sqlite3
from contextlib import closing

from sqlalchemy import Connection

from penstock.store.database import Database
from penstock.store.statements import Statements, cursor_of, insert_all


def test_parameters_are_marked_as_the_driver_wants_them() -> None:
    names = [name for name in vars(Statements) if not name.startswith("_")]
    ours, theirs = Statements("sqlite"), Statements("postgresql")
    for name in names:
        plain = getattr(ours, name).replace("INDEXED BY tasks_in_hand ", "")
        assert getattr(theirs, name) == plain.replace("?", "%s")
    assert "?" in ours.insert
    assert len(names) > 20


def test_one_row_and_many_are_inserted_alike() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (a)")
        for rows in ([], [(1,)], [(2,), (3,)]):
            insert_all(cursor, "INSERT INTO t VALUES (?)", rows)  # type: ignore[arg-type]
        assert cursor.execute("SELECT a FROM t").fetchall() == [(1,), (2,), (3,)]


async def test_the_driver_and_sqlalchemy_see_one_transaction(database: Database) -> None:
    def unit(connection: Connection) -> object:
        cursor_of(connection).execute("DELETE FROM installation")
        return connection.exec_driver_sql("SELECT count(*) FROM installation").scalar()

    assert await database.write(unit) == 0
