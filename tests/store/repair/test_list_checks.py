"""Rows of lists that do not fit their logs are named, and made again."""

from functools import partial

import pytest
from sqlalchemy import Connection, text

from penstock.store.database import Database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.repair.list_checks import odd_logs, unfit_rows
from penstock.store.repair.rebuild import rebuild
from tests.kit.entries import CHAT, TWO, answered, asked, ended, message, opened, started, suspended


def do(statement: str, connection: Connection) -> None:
    connection.execute(text(statement))


async def talk(log: SqlLog) -> None:
    """A conversation with two tasks and an answered question, and one in which nothing was said."""
    await log.send(CHAT, [opened("A title"), message()])
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    await log.append(lease, [started(), asked(), suspended()])
    await log.send(CHAT, [answered("Yes")])
    await log.append(lease, [ended()])
    await log.send(CHAT, [message(TWO)])
    await log.surrender(lease)


UNFIT = {
    "UPDATE tasks SET status = 'odd' WHERE task_id = 'task_1'": (
        "task 'task_1' has the status 'odd', which there is not"
    ),
    "UPDATE questions SET status = 'odd'": "question 'q_1' has the status 'odd'",
    "UPDATE tasks SET log_id = 'conv_gone' WHERE task_id = 'task_1'": (
        "task 'task_1' is of log 'conv_gone', which is not there"
    ),
    "UPDATE questions SET log_id = 'conv_gone'": "question 'q_1' is of log 'conv_gone'",
    "UPDATE sessions SET session_id = 'conv_gone'": "conversation 'conv_gone' is of log",
    "UPDATE tasks SET status = 'running' WHERE task_id = 'task_1'": "task 'task_1' is running, and",
    "UPDATE tasks SET status = 'failed' WHERE task_id = 'task_2'": "task 'task_2' is failed, and",
    "UPDATE tasks SET first_seq = 1 WHERE task_id = 'task_1'": (
        "the beginning of task 'task_1' is event 1 of log 'conv_1' in the lists"
    ),
    "UPDATE tasks SET ended_seq = 8 WHERE task_id = 'task_1'": "the end of task 'task_1' is event",
    "UPDATE questions SET asked_seq = 8": "question 'q_1' is event 8 of log 'conv_1'",
}


@pytest.mark.parametrize(("damage", "said"), UNFIT.items(), ids=list(UNFIT))
async def test_a_row_that_does_not_fit_its_log_is_named_and_rebuilt(
    damage: str, said: str, log: SqlLog, database: Database
) -> None:
    await talk(log)
    assert await unfit_rows(database) == []
    await database.write(partial(do, damage))
    found = await unfit_rows(database)
    assert any(each.startswith(said) for each in found), found
    assert (await rebuild(database, log)).left == ()
    assert (await unfit_rows(database), await odd_logs(database)) == ([], [])


ODD = {
    "UPDATE logs SET epoch = 0": "log 'conv_1' was held, and its epoch went back to 0",
    "INSERT INTO logs (log_id, profile_id, agent) VALUES ('conv_2', 'ann', 'a')": (
        "log 'conv_2' has no events"
    ),
}


@pytest.mark.parametrize(("damage", "said"), ODD.items(), ids=list(ODD))
async def test_a_log_whose_row_cannot_be_right_is_named(
    damage: str, said: str, log: SqlLog, database: Database
) -> None:
    await talk(log)
    assert await odd_logs(database) == []
    await database.write(partial(do, damage))
    assert await odd_logs(database) == [said]
    assert await unfit_rows(database) == []
