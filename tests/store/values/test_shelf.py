"""The texts of one dispatcher in the database; tests/contracts/test_subjects.py has the rest."""

from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from penstock.core.scopes import Scope, ScopeKind
from penstock.store.database import Database, open_database
from penstock.store.statements import Statements
from penstock.store.tables import scopes
from penstock.store.values.shelf import SqlShelf

HERE = Scope(ScopeKind.PROFILE, "ann/dispatcher/mail")


def play(database: Database, connection: Connection) -> tuple[list[str | None], list[str], int]:
    """Write and drop texts; return what is left, in a range, and counted in the scope."""
    sql, cursor = Statements(database.dialect), connection.connection.cursor()
    cursor.execute(sql.take_scope, (HERE.kind.value, HERE.id))
    shelf = SqlShelf(sql, cursor, HERE)
    for key in ("due/2", "due/1", "due0", "row/\N{SNOWMAN}"):
        shelf.put(key, "")
    shelf.put("row/\N{SNOWMAN}", "new")
    shelf.drop("due0")
    shelf.drop("none")
    found = [shelf.find(key) for key in ("row/\N{SNOWMAN}", "due0")]
    count = connection.execute(select(scopes.c.entries)).scalar_one()
    return found, [*shelf.between("due/", "due/9", 5)], count


@pytest.mark.parametrize("limit", [1, 2])
async def test_texts_are_found_in_order_and_counted(tmp_path: Path, limit: int) -> None:
    database = await open_database(f"sqlite:///{tmp_path}/{limit}.db", synchronous="NORMAL")
    found, due, count = await database.write(partial(play, database))
    await database.close()
    assert (found, due[:limit], count) == (["new", None], ["due/1", "due/2"][:limit], 3)
