"""Retention deletes what is old and closed, and nothing else."""

from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, text

from penstock.core.errors import StoreFull
from penstock.core.events.events import CallRequested, Entry
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import BlobId, LogId, TaskId
from penstock.core.task import TaskStatus
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.erasure import Erasure
from penstock.store.logs.sql_log import SqlLog
from penstock.store.upkeep.retention import Retention, is_open
from penstock.store.upkeep.rules import RetentionRule
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import (
    ANN,
    CALL,
    CHAT,
    ONE,
    TWO,
    asked,
    ended,
    message,
    note,
    opened,
    started,
    suspended,
)

DAY = 24 * 3600
RUN = LogId("run_1")
FOUR = TaskId("task_4")


@pytest.fixture
def erasure(database: Database, blobs: Blobs, clock: FakeClock) -> Erasure:
    return Erasure(database, blobs, clock)


def retention(
    database: Database, erasure: Erasure, clock: FakeClock, *rules: RetentionRule
) -> Retention:
    return Retention(database, erasure, clock, rules)


async def deleted(kept: Retention, size: int = 20) -> list[list[str]]:
    return [[log.log_id for log in logs] async for logs in kept.steps(size) if logs]


async def log_ids(database: Database) -> list[str]:
    statement = text("SELECT log_id FROM logs ORDER BY log_id")
    return [*await database.read(lambda each: each.execute(statement).scalars().all())]


async def talk(
    log: SqlLog,
    log_id: LogId = CHAT,
    *steps: Entry,
    task_id: TaskId = ONE,
    agent: str = "assistant",
) -> None:
    """A conversation with one task, which ends unless `steps` say otherwise."""
    await log.send(log_id, [opened(agent=agent), message(task_id)])
    lease = await log.acquire(log_id, "me")
    assert lease is not None
    records = await log.append(lease, [started(task_id), *(steps or (ended(task_id),))])
    await log.release(lease, head=records[-1].seq)


async def call(
    log: SqlLog,
    status: TaskStatus = TaskStatus.SUCCEEDED,
    *,
    log_id: LogId = CALL,
    task_id: TaskId = FOUR,
) -> None:
    request = CallRequested(tool_id="t", input={}, profile_id=ANN)
    await log.send(log_id, [Entry(request, task_id)])
    lease = await log.acquire(log_id, "me")
    assert lease is not None
    await log.append(lease, [started(task_id), ended(task_id, status)])
    await log.release(lease, head=3)


OLD = RetentionRule(of="conversations", days=30)


async def test_old_conversations_are_deleted_and_younger_ones_stay(
    database: Database, log: SqlLog, erasure: Erasure, clock: FakeClock
) -> None:
    await talk(log)
    clock.advance(20 * DAY)
    await talk(log, LogId("conv_2"), task_id=TWO)
    kept = retention(database, erasure, clock, OLD)
    assert [each async for each in kept.due()] == []
    clock.advance(11 * DAY)
    assert [each.log_id async for each in kept.due()] == [CHAT]
    assert await log_ids(database) == ["conv_1", "conv_2"]
    assert await deleted(kept) == [["conv_1"]]
    assert await log_ids(database) == ["conv_2"]


async def test_an_undo_is_deleted_with_its_task_and_not_before(
    database: Database, log: SqlLog, erasure: Erasure, clock: FakeClock
) -> None:
    """Without it, another undo would take the calls back again."""
    await talk(log)
    await call(log)
    await call(log, log_id=LogId(f"undo_{ONE}"), task_id=TaskId(f"undo_{ONE}"))
    clock.advance(31 * DAY)
    calls = RetentionRule(of="calls", days=30)
    assert await deleted(retention(database, erasure, clock, calls)) == [[CALL]]
    assert await log_ids(database) == ["conv_1", f"undo_{ONE}"]
    await deleted(retention(database, erasure, clock, OLD))
    assert await log_ids(database) == []


async def test_a_step_deletes_a_limited_number(
    database: Database, log: SqlLog, erasure: Erasure, clock: FakeClock
) -> None:
    for number in range(5):
        await talk(log, LogId(f"conv_{number}"), task_id=TaskId(f"task_{number}"))
    clock.advance(31 * DAY)
    assert [len(some) for some in await deleted(retention(database, erasure, clock, OLD), 2)] == [
        2,
        2,
        1,
    ]
    assert await log_ids(database) == []


async def test_blobs_and_list_rows_are_deleted_with_their_log(
    database: Database, log: SqlLog, erasure: Erasure, blobs: Blobs, clock: FakeClock
) -> None:
    await talk(log, CHAT, note("x" * 500), ended())
    statement = text("SELECT blob_id FROM events WHERE blob_id IS NOT NULL")
    (large,) = await database.read(lambda each: each.execute(statement).scalars().all())
    clock.advance(31 * DAY)
    await deleted(retention(database, erasure, clock, OLD))
    assert not await blobs.exists(BlobId(large))
    for table in ("events", "tasks", "sessions", "questions"):
        rows = text(f"SELECT count(*) FROM {table}")  # noqa: S608
        assert await database.read(lambda each, count=rows: each.execute(count).scalar()) == 0  # type: ignore[misc]


async def test_the_space_is_overwritten_by_the_next_sweep(
    database: Database, log: SqlLog, erasure: Erasure, clock: FakeClock
) -> None:
    await talk(log)
    clock.advance(31 * DAY)
    await deleted(retention(database, erasure, clock, OLD))
    left = text("SELECT count(*) FROM loose_blobs")
    assert await database.read(lambda each: each.execute(left).scalar()) == 1
    await erasure.finish()
    assert await database.read(lambda each: each.execute(left).scalar()) == 0


async def test_a_kill_between_rows_and_blobs_is_finished_later(
    database: Database, log: SqlLog, blobs: Blobs, clock: FakeClock
) -> None:
    class Killed(Erasure):
        """An erasure whose process dies before it deletes blobs."""

        async def _drop_due(self, entries: Any) -> None:
            raise StoreFull

    await talk(log, CHAT, note("x" * 500), ended())
    statement = text("SELECT blob_id FROM events WHERE blob_id IS NOT NULL")
    (large,) = await database.read(lambda each: each.execute(statement).scalars().all())
    clock.advance(31 * DAY)
    with pytest.raises(StoreFull):
        await deleted(retention(database, Killed(database, blobs, clock), clock, OLD))
    assert await log_ids(database) == []
    assert await blobs.exists(BlobId(large))
    await Erasure(database, blobs, clock).finish()
    assert not await blobs.exists(BlobId(large))


def do(statement: str, connection: Connection) -> None:
    connection.execute(text(statement))


SCHEDULE = """
INSERT INTO schedules (schedule_id, agent, name, type, timezone, callback_type, callback_id, input,
concurrency, options, source, profile_id, session_id, status, planned_at, active_since, missed,
created_at, updated_at) VALUES ('s_1', 'a', 'daily', 'cron', 'UTC', 'message', 'm', '{}', 'skip',
'{}', 'api', 'ann', 'conv_1', 'paused', 0, 0, 0, 0, 0)
"""
OPEN = {
    "a task that runs": ((note("x"),), ""),
    "a question": ((asked(), suspended()), ""),
    "a question of a task that has ended": (
        (asked(), ended()),
        "UPDATE questions SET status = 'open'",
    ),
    "a lease": ((ended(),), "UPDATE logs SET owner = 'somebody'"),
    "a schedule that sends messages to it": ((ended(),), SCHEDULE),
    "a run that is due": ((ended(),), "UPDATE logs SET needs_run = 1"),
}


@pytest.mark.parametrize(("steps", "change"), OPEN.values(), ids=list(OPEN))
async def test_nothing_that_is_open_is_deleted(
    steps: tuple[Entry, ...],
    change: str,
    database: Database,
    log: SqlLog,
    erasure: Erasure,
    clock: FakeClock,
) -> None:
    await talk(log, CHAT, *steps)
    if change:
        await database.write(partial(do, change))
    clock.advance(1000 * DAY)
    kept = retention(database, erasure, clock, OLD)
    assert [each async for each in kept.due()] == []
    assert [each for some in await deleted(kept) for each in some] == []
    assert await log_ids(database) == [CHAT]


async def test_a_message_that_arrives_at_the_same_time_wins(
    database: Database, log: SqlLog, erasure: Erasure, clock: FakeClock
) -> None:
    await talk(log)
    clock.advance(31 * DAY)

    class Slow(Erasure):
        """An erasure that begins after the next message."""

        async def collect(self, log_id: LogId, is_kept: Any) -> set[LogId]:
            await log.send(log_id, [message(TWO)])
            return await super().collect(log_id, is_kept)

    slow = Slow(database, erasure._blobs, clock)  # noqa: SLF001
    assert await deleted(retention(database, slow, clock, OLD)) == []
    assert await log_ids(database) == [CHAT]


RULES = [
    (RetentionRule(of="calls", days=1), True),
    (RetentionRule(of="calls", days=3), False),
    (RetentionRule(of="runs", days=1), False),
    (RetentionRule(of="conversations", days=1), False),
    (RetentionRule(of="calls", days=1, status=frozenset({"failed"})), False),
    (RetentionRule(of="calls", days=1, status=frozenset({"failed", "succeeded"})), True),
]


@pytest.mark.parametrize(("rule", "is_deleted"), RULES)
async def test_a_rule_names_a_kind_an_age_and_an_end(
    rule: RetentionRule,
    is_deleted: bool,
    database: Database,
    log: SqlLog,
    erasure: Erasure,
    clock: FakeClock,
) -> None:
    await call(log)
    clock.advance(2 * DAY)
    found = await deleted(retention(database, erasure, clock, rule))
    assert found == ([[CALL]] if is_deleted else [])


async def run_of(log: SqlLog, waiter: TaskId) -> None:
    request = FlowRequested(
        command="guide", task="x", profile_id=ANN, waiter_log=CHAT, waiter=waiter
    )
    await log.send(RUN, [Entry(request, FOUR)])
    lease = await log.acquire(RUN, "me")
    assert lease is not None
    await log.append(lease, [started(FOUR), ended(FOUR)])
    await log.release(lease, head=3)


async def test_a_run_stays_while_its_caller_is_open(
    database: Database, log: SqlLog, erasure: Erasure, clock: FakeClock
) -> None:
    await talk(log, CHAT, asked(), suspended())
    await run_of(log, ONE)
    clock.advance(1000 * DAY)
    kept = retention(database, erasure, clock, RetentionRule(of="runs", days=1))
    assert await deleted(kept) == []
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    (record,) = await log.append(lease, [ended()])
    await log.release(lease, head=record.seq)
    assert await deleted(kept) == [[RUN]]
    assert await log_ids(database) == [CHAT]


@pytest.mark.parametrize("column", ["parent_id", "root_id"])
async def test_a_child_stays_while_a_task_above_it_is_open(
    column: str, database: Database, log: SqlLog, erasure: Erasure, clock: FakeClock
) -> None:
    await talk(log, CHAT, asked(), suspended())
    await call(log)
    above = f"UPDATE tasks SET {column} = 'task_1' WHERE task_id = 'task_4'"  # noqa: S608
    await database.write(partial(do, above))
    clock.advance(1000 * DAY)
    kept = retention(database, erasure, clock, RetentionRule(of="calls", days=1))
    assert await deleted(kept) == []
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    (record,) = await log.append(lease, [ended()])
    await log.release(lease, head=record.seq)
    assert await deleted(kept) == [[CALL]]


async def test_a_conversation_goes_with_its_runs_unless_one_is_open(
    database: Database, log: SqlLog, erasure: Erasure, clock: FakeClock
) -> None:
    await talk(log)
    await run_of(log, ONE)
    clock.advance(31 * DAY)
    await database.write(partial(do, "UPDATE logs SET needs_run = 1 WHERE log_id = 'run_1'"))
    kept = retention(database, erasure, clock, OLD)
    assert await deleted(kept) == []
    assert await log_ids(database) == [CHAT, RUN]
    await database.write(partial(do, "UPDATE logs SET needs_run = 0 WHERE log_id = 'run_1'"))
    assert await deleted(kept) == [[CHAT]]
    assert await log_ids(database) == []


async def test_a_log_that_does_not_exist_is_not_open(database: Database) -> None:
    assert not await database.read(partial(is_open, CHAT))


async def test_without_rules_nothing_is_looked_at(
    database: Database, log: SqlLog, erasure: Erasure, clock: FakeClock
) -> None:
    await talk(log)
    clock.advance(1000 * DAY)
    assert await deleted(retention(database, erasure, clock)) == []
