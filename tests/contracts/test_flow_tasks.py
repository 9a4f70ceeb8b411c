"""Runs of flows in the lists of tasks, wherever they are kept."""

import pytest

from penstock.core.errors import IdempotencyConflict, NotFound, TaskOver
from penstock.core.events.events import Entry, TaskSuspended
from penstock.core.events.flow_events import FlowRequested, RunEnded
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskStatus
from penstock.store.logs.log import Log
from penstock.store.projections import Page, Projections, TasksOf
from tests.kit.log_entries import BOB, CHAT, ONE, TWO, ended, message, opened, started

ALL = Page(limit=100)


async def test_a_run_of_a_flow_is_a_task_of_its_kind(log: Log, lists: Projections) -> None:
    asked = FlowRequested(
        command="dom:apply", profile_id=BOB, idempotency_key="key", request_hash="ab"
    )
    await log.send(LogId("task_9"), [Entry(asked, TaskId("task_9"))])
    task = await lists.find_task(TaskId("task_9"))
    assert task is not None
    assert (task.kind, task.profile_id, task.agent) == ("flow", BOB, "dom:apply")
    with pytest.raises(IdempotencyConflict):
        await log.send(LogId("task_8"), [Entry(asked, TaskId("task_8"))])


async def test_tasks_are_listed_by_kind(log: Log, lists: Projections) -> None:
    await log.send(CHAT, [opened(), message()])
    for number, command in enumerate(("a", "b", "a"), 7):
        task_id = TaskId(f"task_{number}")
        asked = FlowRequested(command=command, profile_id=BOB)
        await log.send(LogId(task_id), [Entry(asked, task_id)])

    async def ids(of: TasksOf) -> set[TaskId]:
        found, count = await lists.tasks(of=of, page=ALL)
        assert count == len(found)
        return {each.task_id for each in found}

    assert await ids(TasksOf(kind="flow", agent="a")) == {TaskId("task_7"), TaskId("task_9")}
    assert await ids(TasksOf(kind="message")) == {ONE}
    assert len(await ids(TasksOf(status=TaskStatus.QUEUED))) == 4
    assert await ids(TasksOf(kind="flow", status=TaskStatus.FAILED)) == set()


OVER = RunEnded(run_id=TaskId("task_9"))


async def test_the_end_of_a_run_is_reported_to_an_open_task(log: Log) -> None:
    await log.send(CHAT, [opened(), message()])
    lease = await log.acquire(CHAT, "me")
    assert lease
    parked = Entry(TaskSuspended(questions=(), runs=(OVER.run_id,)), ONE)
    await log.append(lease, [started(), parked])
    assert not await log.release(lease, head=4)
    (record,) = await log.send(CHAT, [Entry(OVER, ONE)])
    assert (record.seq, record.event) == (5, OVER)
    assert [each.log_id for each in await log.pending(limit=9)] == [CHAT]
    assert [each.event for each in await log.read(CHAT, after=4)] == [OVER]
    again = await log.acquire(CHAT, "me")
    assert again
    await log.append(again, [ended()])
    with pytest.raises(TaskOver):
        await log.send(CHAT, [Entry(OVER, ONE)])


async def test_the_holder_is_notified_of_the_end_of_a_run(log: Log) -> None:
    await log.send(CHAT, [opened(), message()])
    lease = await log.acquire(CHAT, "me")
    assert lease
    await log.append(lease, [started()])
    await log.send(CHAT, [Entry(OVER, ONE)])
    assert [each.event for each in await log.renew(lease, after=3)] == [OVER]


async def test_the_end_of_a_run_makes_no_log_and_no_task(log: Log) -> None:
    with pytest.raises(NotFound):
        await log.send(CHAT, [Entry(OVER, ONE)])
    assert await log.head(CHAT) == 0
    await log.send(CHAT, [opened(), message()])
    with pytest.raises(NotFound):
        await log.send(CHAT, [Entry(OVER, TWO)])
    assert await log.head(CHAT) == 2
