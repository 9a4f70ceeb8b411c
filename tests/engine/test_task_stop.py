"""What is cancelled: a task, the work of a process, or neither."""

import asyncio

import pytest

from penstock.core.errors import Cancel
from penstock.core.events.events import CancelRequested, Entry, TaskEnded, TaskStarted
from penstock.core.task import TaskStatus
from penstock.engine.held_log import HeldLog
from penstock.engine.task_state import TaskState
from penstock.testing.clock import settle
from tests.kit.activations import ActiveLog, finish
from tests.kit.events import LOG, ONE, TWO


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_cancel_ends_the_work_and_hits_nothing_that_follows(swallows: bool) -> None:
    here = asyncio.Event()

    async def work(held: HeldLog, task: TaskState) -> None:
        if task.task_id == TWO:
            await settle()
            return await finish(held, task)
        held.add(TaskStarted(), task.task_id)
        here.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not swallows:
                raise

    active = ActiveLog(work)
    await active.say()
    await active.say(TWO, is_new=False)
    running = asyncio.ensure_future(active.run())
    await here.wait()
    await active.log.send(LOG, [Entry(CancelRequested(), ONE)])
    await active.activations.refresh(LOG)
    await active.activations.refresh(LOG)
    await running
    ends = [each.status for each in await active.events() if isinstance(each, TaskEnded)]
    assert ends == [TaskStatus.CANCELLED, TaskStatus.SUCCEEDED]


async def test_a_cancel_that_the_work_finds_itself() -> None:
    async def work(held: HeldLog, task: TaskState) -> None:
        held.add(TaskStarted(), task.task_id)
        await active.log.send(LOG, [Entry(CancelRequested(), ONE)])
        await held.refresh()
        raise Cancel

    active = ActiveLog(work)
    await active.say()
    await active.run()
    assert [type(each) for each in await active.events()] == [
        CancelRequested,
        TaskStarted,
        TaskEnded,
    ]


async def test_a_task_that_ended_before_its_cancel_was_seen_has_succeeded() -> None:
    async def work(held: HeldLog, task: TaskState) -> None:
        await active.log.send(LOG, [Entry(CancelRequested(), ONE)])
        await finish(held, task)
        await held.commit()

    active = ActiveLog(work)
    await active.say()
    await active.run()
    (only,) = [each for each in await active.events() if isinstance(each, TaskEnded)]
    assert only.status is TaskStatus.SUCCEEDED


async def test_a_stop_of_the_process_gives_the_log_back_with_work_left() -> None:
    here = asyncio.Event()

    async def work(held: HeldLog, task: TaskState) -> None:
        held.add(TaskStarted(), task.task_id)
        here.set()
        await asyncio.Event().wait()

    active = ActiveLog(work)
    await active.say()
    running = asyncio.ensure_future(active.run())
    await here.wait()
    await active.activations.close()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [each.log_id for each in await active.log.pending(limit=9)] == [LOG]
    assert await active.is_free()


async def test_work_that_is_cancelled_by_nobody_fails_its_task_and_is_not_begun_again() -> None:
    async def work(held: HeldLog, task: TaskState) -> None:
        raise asyncio.CancelledError

    active = ActiveLog(work)
    await active.say()
    await active.run()
    (only,) = [each for each in await active.events() if isinstance(each, TaskEnded)]
    assert only.error
    assert (only.status, only.error.code) == (TaskStatus.FAILED, "INTERNAL_ERROR")
    assert await active.log.pending(limit=9) == []


async def test_work_that_cancels_itself_counts_as_a_crash_and_fails_in_the_end() -> None:
    async def work(held: HeldLog, task: TaskState) -> None:
        here = asyncio.current_task()
        assert here
        here.cancel()
        await asyncio.Event().wait()

    active = ActiveLog(work, recoveries=3)
    await active.say()
    for _ in range(6):
        await asyncio.gather(asyncio.ensure_future(active.run()), return_exceptions=True)
        active.clock.advance(4)
    (only,) = [each for each in await active.events() if isinstance(each, TaskEnded)]
    assert only.status is TaskStatus.FAILED
    assert len(active.worked) == 3
