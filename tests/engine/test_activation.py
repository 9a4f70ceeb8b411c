"""An activation: takes the lease, does what there is to do, gives it back."""

import asyncio
import errno
from collections.abc import Awaitable, Sequence
from contextlib import suppress

import pytest

from penstock.core.clock import Moment
from penstock.core.errors import Cancel, OutOfResources, StoreFull
from penstock.core.events.events import (
    CancelRequested,
    Entry,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.ids import TaskId
from penstock.core.stored.changes import WorkspaceChange
from penstock.core.task import TaskStatus
from penstock.engine.held_log import HeldLog
from penstock.engine.task_state import TaskState
from penstock.store.logs.log import Lease
from penstock.testing.clock import FakeClock, settle
from penstock.testing.log import MemoryLog
from tests.kit.activations import ActiveLog, End, end, finish, no_end
from tests.kit.session_events import LOG, ONE, TWO, ended, message, outcome, path_of, question


async def test_it_does_all_work_and_releases_the_log() -> None:
    active = ActiveLog(finish)
    await active.say()
    await active.say(TWO, is_new=False)
    assert await active.run() is None
    assert active.worked == [ONE, TWO]
    assert await active.log.pending(limit=9) == []
    assert await active.is_free()


async def test_a_log_that_another_process_holds_is_not_changed() -> None:
    active = ActiveLog(finish)
    await active.say()
    await active.log.acquire(LOG, "other")
    assert await active.run() is None
    assert active.worked == []


async def test_an_unknown_log_is_nothing() -> None:
    assert await ActiveLog(finish).run() is None


async def test_a_late_message_is_done_before_the_lease_is_released() -> None:
    async def late(held: HeldLog, task: TaskState) -> None:
        await finish(held, task)
        if task.task_id == ONE:
            await held.commit()
            await active.say(TWO, is_new=False)

    active = ActiveLog(late)
    await active.say()
    await active.run()
    assert active.worked == [ONE, TWO]


async def wait_for_ann(held: HeldLog, task: TaskState) -> None:
    if task.started is None:
        held.add(TaskStarted(), task.task_id)
        held.add(QuestionAsked(question=question("a")), task.task_id)
    if task.waits.waiting:
        held.add(TaskSuspended(questions=tuple(task.waits.waiting)), task.task_id)
    else:
        held.add(ended(), task.task_id)


async def test_a_parked_task_is_a_row_and_no_work() -> None:
    active = ActiveLog(wait_for_ann)
    await active.say()
    assert await active.run() is None
    assert await active.run() is None
    assert active.worked == [ONE]
    assert await active.is_free()


async def test_an_expired_question_has_no_author_of_its_answer() -> None:
    async def wait_a_minute(held: HeldLog, task: TaskState) -> None:
        if task.started is None:
            held.add(TaskStarted(), task.task_id)
            asked = question("a", expires_at=Moment(active.clock.now() + 60_000))
            held.add(QuestionAsked(question=asked), task.task_id)
        await wait_for_ann(held, task)

    active = ActiveLog(wait_a_minute)
    await active.say()
    assert await active.run() == active.clock.now() + 60_000
    active.clock.advance(60)
    assert await active.run() is None
    kinds = [type(event) for event in await active.events()]
    assert kinds[-3:] == [QuestionAnswered, TaskResumed, TaskEnded]


@pytest.mark.parametrize("close", [end, no_end])
async def test_a_fault_of_ours_fails_the_task_and_no_other(close: End) -> None:
    async def broken(held: HeldLog, task: TaskState) -> None:
        if task.task_id == ONE:
            raise ZeroDivisionError
        await finish(held, task)

    active = ActiveLog(broken, end=close)
    await active.say()
    await active.say(TWO, is_new=False)
    await active.run()
    ends = [each for each in await active.events() if isinstance(each, TaskEnded)]
    assert [each.status for each in ends] == [TaskStatus.FAILED, TaskStatus.SUCCEEDED]
    assert ends[0].error
    assert ends[0].error.code == "INTERNAL_ERROR"
    assert "ZeroDivision" not in ends[0].error.message


class FullLog(MemoryLog):
    """Has no space left, now and then."""

    is_full = True

    def append(self, lease: Lease, entries: Sequence[Entry]) -> Awaitable[Sequence[Record]]:
        if self.is_full:
            raise StoreFull
        return super().append(lease, entries)


async def test_a_full_disk_is_not_blamed_on_the_task() -> None:
    clock = FakeClock()
    log = FullLog(clock)
    active = ActiveLog(finish, log=log)
    await active.say()
    for _ in range(7):
        with pytest.raises(StoreFull):
            await active.run()
    log.is_full = False
    await active.run()
    assert await active.events() == [TaskStarted(), ended()]


@pytest.mark.parametrize("lack", [OSError(errno.EMFILE, "files"), OutOfResources()])
async def test_a_lack_of_resources_is_not_blamed_on_the_task(lack: Exception) -> None:
    """However often it comes: the log is free again for the next try, and no crash is counted."""
    lacks = [lack] * 7

    async def work(held: HeldLog, task: TaskState) -> None:
        if task.started is None:
            held.add(TaskStarted(), task.task_id)
            await held.commit()
        if lacks:
            raise RuntimeError("on top") from lacks.pop()
        held.add(ended(), task.task_id)

    active = ActiveLog(work)
    await active.say()
    for _ in range(7):
        with pytest.raises(OutOfResources):
            await active.run()
    await active.run()
    events = await active.events()
    assert (events[0], events[-1]) == (TaskStarted(), ended())
    assert set(events[1:-1]) <= {TaskResumed(crashed=False)}


class StuckLog(MemoryLog):
    """From some moment on, nothing can be written to it, not even the release of a lease."""

    is_full = False

    def append(self, lease: Lease, entries: Sequence[Entry]) -> Awaitable[Sequence[Record]]:
        if self.is_full:
            raise StoreFull
        return super().append(lease, entries)

    async def surrender(self, lease: Lease) -> None:
        if self.is_full:
            raise StoreFull
        await super().surrender(lease)


async def cut_by_the_disk(clock: FakeClock) -> tuple[ActiveLog, StuckLog]:
    """Return a log whose task was interrupted, and whose lease could not be released."""
    log = StuckLog(clock)

    async def fill(held: HeldLog, task: TaskState) -> None:
        if task.started is None:
            held.add(TaskStarted(), task.task_id)
            await held.commit()
            log.is_full = True
        await finish(held, task)

    active = ActiveLog(fill, log=log)
    await active.say()
    for _ in range(7):
        with pytest.raises(StoreFull):
            await active.run()
    log.is_full = False
    return active, log


async def test_a_lease_that_a_full_disk_kept_from_release_is_not_a_crash() -> None:
    """The same process continues where it was, as soon as writes succeed again."""
    active, _ = await cut_by_the_disk(FakeClock())
    await active.run()
    assert await active.events() == [TaskStarted(), TaskResumed(), ended()]


async def test_a_pending_release_is_made_when_the_process_stops() -> None:
    active, log = await cut_by_the_disk(FakeClock())
    await active.activations.close()
    lease = await log.acquire(LOG, "other")
    assert lease
    assert not lease.crashed


async def test_an_owed_release_does_not_end_the_lease_of_the_next_holder() -> None:
    active, log = await cut_by_the_disk(clock := FakeClock())
    clock.advance(4)
    lease = await log.acquire(LOG, "other")
    assert lease
    assert await active.run() is None
    await log.append(lease, [Entry(ended(), ONE)])


async def test_a_crash_is_detected_and_recorded() -> None:
    active = ActiveLog(finish)
    await active.say()
    lease = await active.log.acquire(LOG, "dead")
    assert lease
    await active.log.append(lease, [Entry(TaskStarted(), ONE)])
    active.clock.advance(4)
    await active.run()
    assert await active.events() == [TaskStarted(), TaskResumed(crashed=True), ended()]


async def test_a_resumption_is_written_together_with_the_next_event() -> None:
    log = Bundles(FakeClock())
    active = ActiveLog(finish, log=log)
    await active.say()
    lease = await log.acquire(LOG, "other")
    assert lease
    await log.append(lease, [Entry(TaskStarted(), ONE)])
    await log.surrender(lease)
    await active.run()
    assert log.bundles == [[TaskStarted], [TaskResumed, TaskEnded]]


class Bundles(MemoryLog):
    """Notes what was written together."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.bundles: list[list[type]] = []

    def append(self, lease: Lease, entries: Sequence[Entry]) -> Awaitable[Sequence[Record]]:
        self.bundles.append([type(each.event) for each in entries])
        return super().append(lease, entries)


@pytest.mark.parametrize("writes", [False, True], ids=["at once", "after a write"])
async def test_a_task_that_repeatedly_kills_the_process_fails(writes: bool) -> None:
    async def die(held: HeldLog, task: TaskState) -> None:
        if task.started is None:
            held.add(TaskStarted(), task.task_id)
        if writes:
            await held.commit()
        await asyncio.Event().wait()

    active = ActiveLog(die, recoveries=3)
    await active.say()
    for _ in range(6):
        task = asyncio.ensure_future(active.run())
        await settle()
        active.clock.advance(4)
        await active.log.acquire(LOG, "nobody")  # so that the release comes too late
        active.clock.advance(4)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    ends = [each for each in await active.events() if isinstance(each, TaskEnded)]
    assert len(ends) == 1
    assert ends[0].error
    assert "in a row at the same place" in ends[0].error.message


async def test_a_task_that_gets_on_may_crash_for_ever() -> None:
    active = ActiveLog(finish, recoveries=2)
    await active.say()
    for number in range(5):
        lease = await active.log.acquire(LOG, "dead")
        assert lease
        first = TaskResumed(crashed=True) if number else TaskStarted()
        progress = ReplyReceived(iteration=1, base=0, text="", message_id=message().message_id)
        await active.log.append(lease, [Entry(first, ONE), Entry(progress, ONE)])
        active.clock.advance(4)
    await active.run()
    assert (await active.events())[-1] == ended()


# ---- cancel ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("?"), Cancel()])
async def test_a_write_on_its_way_is_settled_before_its_task_ends(error: BaseException) -> None:
    path = path_of("write")
    known: list[bool] = []

    async def write(held: HeldLog, task: TaskState) -> None:
        held.add(TaskStarted(), task.task_id)
        held.add_change(outcome("write"), WorkspaceChange(files=()), task.task_id, path)
        held.add(CancelRequested(by=None), task.task_id)
        raise error

    def close(held: HeldLog, task: TaskState, event: TaskEnded) -> None:
        known.append(path in task.settled)
        held.add(event, task.task_id)

    active = ActiveLog(write, end=close)
    await active.say()
    await active.run()
    assert known == [True]


async def test_the_end_of_a_task_is_notified_after_its_commit_and_before_the_release() -> None:
    told: list[tuple[TaskId, bool]] = []

    async def tell(held: HeldLog, task: TaskState) -> None:
        *_, last = await active.events()
        told.append((task.task_id, isinstance(last, TaskEnded) and not await active.is_free()))

    active = ActiveLog(finish, tell=tell)
    await active.say()
    await active.say(TWO, is_new=False)
    await active.run()
    assert told == [(ONE, True), (TWO, True)]


async def test_an_end_that_was_not_notified_is_notified_by_the_next_holder() -> None:
    """An activation whose notification fails releases the log as one that needs a run."""
    told: list[TaskId] = []

    async def tell(held: HeldLog, task: TaskState) -> None:
        told.append(task.task_id)
        if len(told) == 1:
            raise StoreFull

    active = ActiveLog(finish, tell=tell)
    await active.say()
    with pytest.raises(StoreFull):
        await active.run()
    assert [each.log_id for each in await active.log.pending(limit=9)] == [LOG]
    await active.run()
    assert (told, active.worked) == ([ONE, ONE], [ONE])
    assert await active.log.pending(limit=9) == []


async def test_the_end_of_a_cancelled_task_is_notified() -> None:
    told: list[TaskId] = []

    async def tell(held: HeldLog, task: TaskState) -> None:
        told.append(task.task_id)

    active = ActiveLog(finish, tell=tell)
    await active.say()
    await active.log.send(LOG, [Entry(CancelRequested(), ONE)])
    await active.run()
    assert (told, active.worked) == ([ONE], [])
