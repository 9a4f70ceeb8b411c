"""Ticks of schedules in one transaction with their tasks."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import select

from penstock.app.runtime import Runtime
from penstock.chat.schedules.definition import NewSchedule, Schedule
from penstock.core.call_errors import ScheduleBusy
from penstock.core.clock import Moment
from penstock.core.errors import NameTaken, NotFound
from penstock.core.events.events import Entry, Event, TaskEnded, TaskStarted
from penstock.core.events.schedule_events import ScheduleFired
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskStatus
from penstock.store.database import Database, open_database
from penstock.store.repair import rebuild
from penstock.store.tables import schedules, tasks
from penstock.store.values.due_times import FORBID
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import message, opened
from tests.kit.server import in_memory

LATER = Moment(9_999_999_999_999)


@pytest.fixture
async def database(database_url: str) -> Database:
    return await open_database(database_url)


@pytest.fixture
async def runtime(database: Database) -> AsyncIterator[Runtime]:
    """A runtime whose launcher runs nothing: the tests write the events."""
    async with in_memory(url=database, clock=FakeClock()) as runtime:
        await runtime.parts.engine.launcher.close(seconds=0)
        yield runtime


async def minutely(runtime: Runtime, **more: Any) -> Schedule:
    new = NewSchedule(name="News", cron="* * * * *", input={"content": "Hi"}, **more)
    return await runtime.schedules.create(new)


async def fire(runtime: Runtime, number: int, **fired: Any) -> None:
    """Write a task and its tick into a new log."""
    task_id, log_id = TaskId(f"task_{number}"), LogId(f"conv_{number}")
    tick = Entry(ScheduleFired(name="News", **fired), task_id)
    await runtime.parts.storage.log.send(log_id, [opened(), message(task_id), tick])


async def end(runtime: Runtime, number: int, status: TaskStatus = TaskStatus.SUCCEEDED) -> None:
    task_id, log = TaskId(f"task_{number}"), runtime.parts.storage.log
    lease = await log.acquire(LogId(f"conv_{number}"), "test")
    assert lease is not None
    ends: list[Event] = [TaskStarted(), TaskEnded(status=status)]
    await log.append(lease, [Entry(each, task_id) for each in ends])


async def stored(database: Database) -> tuple[Any, int]:
    """Return the row of the only schedule, and the number of tasks."""
    read = database.read
    row = await read(lambda each: each.execute(select(schedules)).one())
    return row, len(await read(lambda each: each.execute(select(tasks)).all()))


async def test_a_tick_moves_the_row_and_starts_a_task(database: Database, runtime: Runtime) -> None:
    schedule = await minutely(runtime)
    due = schedule.next_run
    missed = {"due_at": Moment((due or 0) + 2), "missed": 2, "missed_from": due}
    await fire(runtime, 1, schedule_id=schedule.schedule_id, next_run=LATER, **missed)
    row, count = await stored(database)
    moved = (row.next_run, row.last_task_id, row.missed, row.status)
    assert (moved, count) == ((LATER, "task_1", 2, "active"), 1)


async def test_the_last_due_time_completes_the_schedule(
    database: Database, runtime: Runtime
) -> None:
    schedule = await minutely(runtime)
    await fire(runtime, 1, schedule_id=schedule.schedule_id, due_at=schedule.next_run)
    row, _ = await stored(database)
    assert (row.next_run, row.status) == (None, "completed")


async def test_one_due_time_starts_one_task_also_if_it_comes_again(
    database: Database, runtime: Runtime
) -> None:
    """The second tick finds the row moved; after the clock went back it finds the task."""
    schedule = await minutely(runtime, concurrency="allow")
    due = schedule.next_run
    tick = {"schedule_id": schedule.schedule_id, "due_at": due, "next_run": LATER}
    await fire(runtime, 1, **tick)
    with pytest.raises(NameTaken, match="not due"):
        await fire(runtime, 2, **tick)
    back = schedules.update().values(next_run=due)
    await database.write(lambda each: each.execute(back).rowcount)
    with pytest.raises(NameTaken, match="has a task"):
        await fire(runtime, 3, **tick)
    assert (await stored(database))[1] == 1


@pytest.mark.parametrize("concurrency", [FORBID, "allow"])
async def test_a_task_that_has_not_ended_forbids_another_one(
    database: Database, runtime: Runtime, concurrency: str
) -> None:
    schedule = await minutely(runtime, concurrency=concurrency)
    own: dict[str, Any] = {"schedule_id": schedule.schedule_id}
    await fire(runtime, 1, **own)
    ticks = [own, own | {"due_at": schedule.next_run, "next_run": LATER}]
    for number, tick in enumerate(ticks, 2):
        if concurrency == FORBID:
            with pytest.raises(ScheduleBusy, match="task_1"):
                await fire(runtime, number, **tick)
        else:
            await fire(runtime, number, **tick)
    row, count = await stored(database)
    assert count == (1 if concurrency == FORBID else 3)
    assert row.next_run == (schedule.next_run if concurrency == FORBID else LATER)
    if concurrency == FORBID:
        await end(runtime, 1)
        await fire(runtime, 4, **own)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_paused_or_deleted_schedule_starts_nothing_by_itself(
    database: Database, runtime: Runtime, is_deleted: bool
) -> None:
    schedule = await minutely(runtime)
    own = {"schedule_id": schedule.schedule_id}
    if is_deleted:
        await runtime.schedules.delete(schedule.schedule_id)
        with pytest.raises(NotFound, match="no schedule"):
            await fire(runtime, 1, **own)
    else:
        await runtime.schedules.pause(schedule.schedule_id)
    with pytest.raises(NameTaken):
        await fire(runtime, 2, **own, due_at=schedule.next_run, next_run=LATER)
    if not is_deleted:
        await fire(runtime, 3, **own)
        assert (await stored(database))[1] == 1


async def test_a_rebuild_of_the_lists_keeps_which_schedule_started_a_task(
    database: Database, runtime: Runtime
) -> None:
    schedule = await minutely(runtime)
    own = {"schedule_id": schedule.schedule_id, "due_at": schedule.next_run, "next_run": LATER}
    await fire(runtime, 1, **own)
    every = select(tasks)
    before = await database.read(lambda each: each.execute(every).all())
    await rebuild(database, runtime.parts.storage.log)
    assert await database.read(lambda each: each.execute(every).all()) == before
    assert [(each.schedule_id, each.due_at) for each in before] == [
        (schedule.schedule_id, schedule.next_run)
    ]
