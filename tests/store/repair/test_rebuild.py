"""Projections are made again from the logs."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, select, text

from penstock.core.events.events import CallRequested, Entry, Record
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskStatus
from penstock.store.blobs.blobs import Blobs
from penstock.store.database import Database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.repair.rebuild import Rebuilt, rebuild
from penstock.store.tables import questions, sessions, tasks
from penstock.testing.clock import FakeClock
from tests.kit.entries import (
    ANN,
    BOB,
    CHAT,
    ONE,
    THREE,
    TWO,
    answered,
    asked,
    cancelled,
    ended,
    expired,
    message,
    note,
    opened,
    resumed,
    started,
    suspended,
)

CALL = LogId("task_call")


def projections(connection: Connection) -> dict[str, set[object]]:
    return {
        table.name: set(map(tuple, connection.execute(select(table))))
        for table in (tasks, sessions, questions)
    }


async def live_a_little(log: SqlLog, clock: FakeClock) -> None:
    """A conversation with everything in it, one of another profile, and a direct call."""
    await log.send(CHAT, [opened("A title"), message()])
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    steps = [started(), note("x" * 1000), asked(), suspended(), resumed(), ended()]
    for step in steps:
        clock.advance(1)
        await log.append(lease, [step])
    await log.send(CHAT, [message(TWO, supersedes=ONE), message(THREE), cancelled(TWO)])
    await log.append(lease, [ended(TWO, TaskStatus.CANCELLED), started(THREE)])
    await log.send(LogId("conv_2"), [opened(profile_id=BOB)])
    direct = CallRequested(tool_id="t", input={"large": "x" * 1000}, profile_id=ANN)
    await log.send(CALL, [Entry(direct, TaskId("task_4"))])


async def test_what_is_rebuilt_is_what_was_there(
    database: Database, log: SqlLog, clock: FakeClock
) -> None:
    await live_a_little(log, clock)
    before = await database.read(projections)
    assert {name: len(rows) for name, rows in before.items()} == {
        "tasks": 4,
        "sessions": 2,
        "questions": 1,
    }
    assert await rebuild(database, log) == Rebuilt(3, ())
    assert await database.read(projections) == before


DAMAGES = [
    "DELETE FROM tasks",
    "UPDATE tasks SET status = 'failed', messages = 7",
    "UPDATE sessions SET title = 'wrong', message_count = 99",
    "DELETE FROM questions",
    "INSERT INTO sessions VALUES ('conv_9', 'ann', 'a', 'of no log', 0, 0, 0)",
]


def do(statement: str, connection: Connection) -> None:
    connection.execute(text(statement))


async def test_damage_is_mended(database: Database, log: SqlLog, clock: FakeClock) -> None:
    await live_a_little(log, clock)
    before = await database.read(projections)
    for damage in DAMAGES:
        await database.write(partial(do, damage))
        assert await database.read(projections) != before
        await rebuild(database, log)
        assert await database.read(projections) == before


COPY = (
    "INSERT INTO events SELECT log_id, 14, at, task_id, path, kind, body, blob_id FROM events "
    "WHERE log_id = 'conv_1' AND"
)
LONGER = "UPDATE logs SET head = 14 WHERE log_id = 'conv_1'"
HOLES = [
    (
        "DELETE FROM events WHERE log_id = 'conv_1' AND seq = 2",
        "event 2 of log 'conv_1' is missing",
    ),
    (
        "DELETE FROM events WHERE log_id = 'conv_1' AND seq = 13",
        "event 13 of log 'conv_1' is missing",
    ),
    ("UPDATE logs SET head = 12 WHERE log_id = 'conv_1'", "should have 12 events, and has 13"),
    (f"{COPY} seq = 5; {LONGER}", "event 14 of log 'conv_1' begins 'q_1' a second time"),
    (f"{COPY} seq = 2; {LONGER}", "event 14 of log 'conv_1' begins 'task_1' a second time"),
    (f"{COPY} seq = 1; {LONGER}", "event 14 of log 'conv_1' begins 'conv_1' a second time"),
    ("UPDATE events SET body = '{' WHERE log_id = 'conv_1' AND seq = 2", "event 2 of log 'conv_1'"),
]


@pytest.mark.parametrize(("damage", "said"), HOLES)
async def test_a_log_that_does_not_read_back_is_told_and_left_and_the_others_are_done(
    database: Database, log: SqlLog, clock: FakeClock, damage: str, said: str
) -> None:
    await live_a_little(log, clock)
    before = await database.read(projections)
    for statement in damage.split("; "):
        await database.write(partial(do, statement))
    await database.write(partial(do, "DELETE FROM tasks WHERE log_id = 'task_call'"))
    rebuilt = await rebuild(database, log)
    assert (rebuilt.logs, len(rebuilt.left)) == (2, 1)
    assert said in rebuilt.left[0]
    assert await database.read(projections) == before


async def test_the_task_of_an_erased_message_stays(database: Database, log: SqlLog) -> None:
    await log.send(CHAT, [opened(), message()])
    await log.send(CHAT, [message(TWO)])
    erase = text("UPDATE events SET kind = 'erased', body = '{}' WHERE seq = 2")
    await database.write(lambda connection: connection.execute(erase))
    await rebuild(database, log)
    wanted = select(tasks.c.task_id, tasks.c.first_seq, tasks.c.messages).order_by("task_id")
    rows = await database.read(lambda each: each.execute(wanted).all())
    assert list(map(tuple, rows)) == [(ONE, 2, 0), (TWO, 3, 1)]


class BusyLog(SqlLog):
    """A log into which somebody writes just after it was read first."""

    reads = 0

    async def read(self, log_id: LogId, **part: Any) -> Sequence[Record]:
        records = await super().read(log_id, **part)
        self.reads += 1
        if self.reads == 1:
            await self.send(log_id, [message(TWO)])
        return records


async def test_a_log_at_work_is_done_again_until_it_holds_still(
    database: Database, blobs: Blobs, clock: FakeClock
) -> None:
    log = BusyLog(database, blobs, clock)
    await log.send(CHAT, [opened(), message()])
    assert await rebuild(database, log) == Rebuilt(1, ())
    assert log.reads == 2
    rows = await database.read(lambda each: each.execute(select(tasks.c.task_id)).scalars().all())
    assert sorted(rows) == [ONE, TWO]


async def test_the_first_answer_counts_again(database: Database, log: SqlLog) -> None:
    await log.send(CHAT, [opened(), message()])
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    await log.append(lease, [started(), asked(), answered("first", by=None), expired()])
    before = await database.read(projections)
    await rebuild(database, log)
    assert await database.read(projections) == before
    status = select(questions.c.status)
    assert await database.read(lambda each: each.execute(status).scalar()) == "answered"
