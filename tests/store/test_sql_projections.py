"""The projections in a database, beyond the contract."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text

from penstock.core.errors import StoreCorrupt
from penstock.core.ids import LogId, ProfileId, QuestionId, SessionId, TaskId
from penstock.core.task import TaskStatus
from penstock.store.blobs import Blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.projections import Page, TasksOf
from penstock.store.sql_projections import SqlProjections
from tests.kit.log_entries import ANN, CHAT, ONE, asked, ended, held, opened, started


@pytest.fixture
def lists(database: Database, blobs: Blobs) -> SqlProjections:
    return SqlProjections(database, blobs)


def do(statement: str, connection: Connection) -> None:
    connection.execute(text(statement))


TITLES = ["École", "100 %", "under_score", "back\\slash", "ΣΊΣΥΦΟΣ"]
SEARCHES = [
    ("éco", ["École"]),
    ("%", ["100 %"]),
    ("_", ["under_score"]),
    ("\\", ["back\\slash"]),
    ("ίσυ", ["ΣΊΣΥΦΟΣ"]),
    ("'", []),
    ("\x00", TITLES),
    ("c", ["École", "back\\slash", "under_score"]),
]


@pytest.mark.parametrize(("search", "found"), SEARCHES)
async def test_titles_are_searched_as_people_read_them(
    log: SqlLog, lists: SqlProjections, search: str, found: list[str]
) -> None:
    for number, title in enumerate(TITLES):
        await log.send(LogId(f"conv_{number}"), [opened(title)])
    shown, total = await lists.sessions(profile_id=ANN, search=search, page=Page())
    assert sorted(each.title for each in shown) == sorted(found)
    assert total == len(found)


async def test_the_outcome_of_a_task_is_read_from_its_log(
    database: Database, log: SqlLog, lists: SqlProjections
) -> None:
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    task = await lists.find_task(ONE)
    assert task is not None
    assert task.outcome is not None
    assert task.outcome["content"] == "Hi"
    await database.write(partial(do, "UPDATE events SET body = '[' WHERE seq = 4"))
    with pytest.raises(StoreCorrupt, match="event 4 of log 'conv_1'"):
        await lists.find_task(ONE)


async def test_a_question_that_the_log_does_not_ask_is_named(
    database: Database, log: SqlLog, lists: SqlProjections
) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked()])
    await database.write(partial(do, "UPDATE questions SET asked_seq = 3"))
    with pytest.raises(StoreCorrupt, match=f"event 3 of log '{CHAT}' is not a question"):
        await lists.find_question(QuestionId("q_1"))


async def test_a_page_is_found_in_the_index_of_its_list(tmp_path: Path, blobs: Blobs) -> None:
    """Rows before a page are neither sorted nor read."""
    database = await open_database(f"sqlite:///{tmp_path / 'one.db'}")
    lists = SqlProjections(database, blobs)
    ran: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        ran.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        await lists.sessions(profile_id=ANN, page=Page(offset=9))
        await lists.tasks(log_id=CHAT, page=Page(offset=9))
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    of_sessions, of_tasks = (each for each in ran if "IN (SELECT" in each)
    assert "INDEX sessions_of_a_profile (profile_id=?)" in await plan(database, of_sessions)
    assert "INDEX tasks_of_a_log (log_id=?)" in await plan(database, of_tasks)
    await database.close()


async def test_open_tasks_are_found_without_reading_all_tasks_of_a_log(
    sqlite_url: str, blobs: Blobs
) -> None:
    database = await open_database(sqlite_url)
    lists = SqlProjections(database, blobs)
    ran: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        ran.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        await lists.find_session(SessionId(CHAT))
        await lists.tasks(log_id=CHAT, of=TasksOf(status=TaskStatus.SUSPENDED), page=Page())
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    asked = [each for each in ran if "FROM tasks" in each]
    assert len(asked) == 3
    for statement in asked:

        def unit(connection: Connection, statement: str = statement) -> str:
            given = ("x",) * statement.count("?")
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given)
            return "\n".join(str(row[-1]) for row in rows)

        assert "INDEX tasks_in_hand (log_id>? AND log_id<?)" in await database.read(unit)
    await database.close()


@pytest.mark.parametrize(
    ("of", "column"),
    [
        (TasksOf(parent_id=TaskId("x")), "parent_id"),
        (TasksOf(root_id=TaskId("x")), "root_id"),
    ],
)
async def test_the_tasks_of_a_tree_are_found_without_reading_all_of_their_profile(
    sqlite_url: str, blobs: Blobs, of: TasksOf, column: str
) -> None:
    database = await open_database(sqlite_url)
    ran: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        ran.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        lists = SqlProjections(database, blobs)
        await lists.tasks(profile_id=ProfileId("ann"), of=of, page=Page())
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    count = next(each for each in ran if each.startswith("SELECT count") and "FROM tasks" in each)

    def unit(connection: Connection) -> str:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {count}", ("x",) * count.count("?"))
        return "\n".join(str(row[-1]) for row in rows)

    assert f"({column}=?)" in await database.read(unit)
    await database.close()


async def plan(database: Database, statement: str) -> str:
    """Return how SQLite finds the ids of a page; it must not sort them."""

    def unit(connection: Connection) -> str:
        inner = statement[statement.index("IN (SELECT") + 4 :].partition(") ORDER BY")[0]
        given = ("x",) * inner.count("?")
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {inner}", given)
        return "\n".join(str(row[-1]) for row in rows)

    found = await database.read(unit)
    assert "TEMP B-TREE" not in found
    return found
