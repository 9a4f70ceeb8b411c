"""What the projections in a database have beyond the contract."""

from functools import partial

import pytest
from sqlalchemy import Connection, text

from penstock.core.errors import StoreCorrupt
from penstock.core.ids import LogId, QuestionId
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.projections import Page
from penstock.store.sql_log import SqlLog
from penstock.store.sql_projections import SqlProjections
from tests.kit.entries import ANN, CHAT, ONE, asked, ended, held, opened, started


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


async def test_what_a_task_came_to_is_read_from_its_log(
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
    with pytest.raises(StoreCorrupt, match=f"event 3 of log '{CHAT}' asks no question"):
        await lists.find_question(QuestionId("q_1"))
