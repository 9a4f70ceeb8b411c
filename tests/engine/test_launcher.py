"""The launcher in this process: what it does when the store says no, or a task is blocked."""

import asyncio
import gc
from collections.abc import Collection, Sequence

import pytest

from penstock.core.clock import Moment
from penstock.core.errors import StoreClosed, StoreCorrupt, StoreError, StoreFull, StoreLocked
from penstock.core.events.events import QuestionAsked, TaskBlocked, TaskStarted
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.task import Missing, MissingKind
from penstock.engine.held_log import HeldLog
from penstock.engine.session_state import SessionState
from penstock.engine.suspend import park
from penstock.engine.task_body import MissingParts, Need
from penstock.engine.task_state import TaskState
from penstock.store.logs.log import Lease, PendingLog
from penstock.testing.clock import FakeClock, settle
from penstock.testing.log import MemoryLog
from tests.kit.launcher import opened
from tests.kit.session_events import ended, path_of, question


class MoodyLog(MemoryLog):
    """Fails a given number of times."""

    def __init__(self, clock: FakeClock, error: StoreError, *, acquire: int, pending: int) -> None:
        super().__init__(clock)
        self._error = error
        self._acquire = acquire
        self._pending = pending

    async def acquire(self, log_id: LogId, owner: str) -> Lease | None:
        self._acquire -= 1
        if self._acquire >= 0:
            raise self._error
        return await super().acquire(log_id, owner)

    async def pending(
        self, *, limit: int, among: Collection[LogId] | None = None
    ) -> Sequence[PendingLog]:
        self._pending -= 1
        if self._pending >= 0:
            raise self._error
        return await super().pending(limit=limit, among=among)


async def test_a_log_that_could_not_be_acquired_is_retried() -> None:
    clock = FakeClock()
    log = MoodyLog(clock, StoreLocked(), acquire=2, pending=0)
    async with opened(log, clock) as running:
        await running.say("a")
        await settle()
        assert running.worked == []
        await clock.elapse(5)
        assert len(running.worked) == 1


@pytest.mark.parametrize(("acquire", "pending"), [(2, 0), (0, 2)])
async def test_a_store_that_fails_is_named_in_one_line_each_time(
    caplog: pytest.LogCaptureFixture, acquire: int, pending: int
) -> None:
    clock = FakeClock()
    log = MoodyLog(clock, StoreFull("no space for /data/p.db"), acquire=acquire, pending=pending)
    async with opened(log, clock) as running:
        await running.say("a", wake=bool(acquire))
        await clock.elapse(5)
    assert caplog.records
    assert all(each.exc_info is None for each in caplog.records)
    assert all(each.message.endswith(": no space for /data/p.db") for each in caplog.records)


async def test_the_sweep_continues_after_the_store_failed_once() -> None:
    clock = FakeClock()
    log = MoodyLog(clock, StoreLocked(), acquire=0, pending=2)
    async with opened(log, clock) as running:
        await running.say("a", wake=False)
        await clock.elapse(5)
        assert len(running.worked) == 1


async def test_a_failed_activation_frees_its_slot() -> None:
    clock = FakeClock()
    log = MoodyLog(clock, StoreLocked(), acquire=1, pending=0)
    async with opened(log, clock, limits=Limits(activations=1)) as running:
        await running.say("a")
        await running.say("b")
        await settle()
        assert len(running.worked) == 1


async def test_a_closed_store_is_the_end_and_no_error() -> None:
    clock = FakeClock()
    log = MoodyLog(clock, StoreClosed(), acquire=1, pending=0)
    async with opened(log, clock) as running:
        await running.say("a")
        await settle()
        assert running.worked == []


async def test_an_unreadable_log_is_skipped_until_an_event_is_written_to_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    log = MoodyLog(clock, StoreCorrupt("event 4 of log 'a'"), acquire=1, pending=0)
    async with opened(log, clock) as running:
        await running.say("a")
        await clock.elapse(60)
        assert running.worked == []
        assert [each.message for each in caplog.records] == ["log a is skipped: event 4 of log 'a'"]
        running.launcher.wake(LogId("a"))
        await settle()
        assert len(running.worked) == 1


async def test_it_is_idle_once_all_work_has_ended() -> None:
    async with opened(MemoryLog(FakeClock()), FakeClock()) as running:
        gate = running.stop_at("a")
        await running.say("a")
        await settle()
        resting = asyncio.ensure_future(running.launcher.rest())
        await settle()
        assert not resting.done()
        gate.set()
        await resting
        assert running.at_work == 0


NO_CLERK = MissingParts((Need(Missing(MissingKind.AGENT, "clerk"), "clerk"),))
FEW = Limits(activations=5)


@pytest.mark.parametrize("blocked", [9, 10, 11, 60])
async def test_blocked_logs_do_not_hide_later_logs(blocked: int) -> None:
    clock = FakeClock()
    async with opened(MemoryLog(clock, FEW), clock, limits=FEW) as running:
        for number in range(blocked):
            running.lacking[LogId(f"blocked {number}")] = NO_CLERK
            await running.say(f"blocked {number}")
            clock.advance(0.001)
        await settle()
        assert running.activations.blocked == blocked
        fresh = await running.say("fresh", wake=False)
        await clock.elapse(2 * FEW.sweep_seconds)
        assert running.worked == [fresh]


async def test_a_blocked_log_that_another_process_finished_is_forgotten() -> None:
    """The others alone are as many as one sweep asks for where nothing is blocked."""
    clock = FakeClock()
    async with opened(MemoryLog(clock, FEW), clock, limits=FEW) as running:
        for number in range(11):
            running.lacking[LogId(f"blocked {number}")] = NO_CLERK
            await running.say(f"blocked {number}")
        await settle()
        lease = await running.log.acquire(LogId("blocked 3"), "other")
        assert lease
        await running.log.release(lease, head=lease.head)
        await clock.elapse(2 * FEW.sweep_seconds)
        assert running.activations.blocked == 10
        assert not running.launcher.is_blocked(LogId("blocked 3"))


async def test_a_blocked_log_resumes_at_the_next_sweep_once_its_need_is_met() -> None:
    clock = FakeClock()
    async with opened(clock=clock) as running:
        running.lacking[LogId("a")] = NO_CLERK
        task_id = await running.say("a")
        await clock.elapse(3 * Limits().sweep_seconds)
        assert running.worked == []
        running.lacking.clear()
        await clock.elapse(2 * Limits().sweep_seconds)
        assert running.worked == [task_id]
        assert running.activations.blocked == 0


@pytest.mark.usefixtures("new_garbage")
async def test_a_blocked_log_keeps_names_in_memory_and_no_state() -> None:
    """Else its text would be here beyond the cache of states, and after it was erased."""
    async with opened() as running:
        running.lacking[LogId("a")] = NO_CLERK
        await running.say("a")
        await settle()
        assert running.launcher.is_blocked(LogId("a"))
        gc.collect()
        states = [each for each in gc.get_objects() if isinstance(each, SessionState)]
        assert [each for each in states if each.log_id == "a"] == []
        running.activations.forget(LogId("a"))
        assert not running.launcher.is_blocked(LogId("a"))


async def test_a_blocked_log_records_once_that_an_agent_is_missing() -> None:
    clock = FakeClock()
    async with opened(clock=clock) as running:
        running.lacking[LogId("a")] = NO_CLERK
        await running.say("a")
        await settle()
        for _ in range(3):
            running.activations.forget(LogId("a"))
            running.launcher.wake(LogId("a"))
            await settle()
        assert running.launcher.is_blocked(LogId("a"))
        blocked = [
            (record.task_id is not None, record.event.blocked_on)
            for record in await running.log.read(LogId("a"))
            if isinstance(record.event, TaskBlocked)
        ]
    assert blocked == [(True, NO_CLERK.missing)]


async def test_a_log_is_visited_when_it_is_due_and_not_before() -> None:
    clock = FakeClock()
    async with opened(clock=clock) as running:
        await settle()
        await running.say("a", wake=False)
        running.launcher.wake(LogId("a"), not_before=Moment(clock.now() + 1500))
        await clock.elapse(1.499)
        assert running.worked == []
        await clock.elapse(0.001)
        assert len(running.worked) == 1


async def test_a_log_that_is_woken_while_it_runs_is_run_once_more() -> None:
    log = CountingLog(FakeClock())
    async with opened(log) as running:
        gate = running.stop_at("a")
        await running.say("a")
        await settle()
        assert log.acquired == 1
        for _ in range(3):
            running.launcher.wake(LogId("a"))
        gate.set()
        await settle()
        assert log.acquired == 2


class CountingLog(MemoryLog):
    """Counts requests for a lease."""

    acquired = 0

    async def acquire(self, log_id: LogId, owner: str) -> Lease | None:
        self.acquired += 1
        return await super().acquire(log_id, owner)


async def test_a_later_time_replaces_the_one_that_was_set_before() -> None:
    clock = FakeClock()
    log = CountingLog(clock)
    async with opened(log, clock) as running:
        await settle()
        await running.say("a", wake=False)
        for wait in (500, 1500):
            running.launcher.wake(LogId("a"), not_before=Moment(clock.now() + wait))
        await clock.elapse(1)
        assert running.worked == []
        await clock.elapse(0.5)
        assert len(running.worked) == 1


async def test_a_waiting_log_is_visited_when_its_question_expires() -> None:
    clock = FakeClock()

    async def asks(held: HeldLog, task: TaskState) -> None:
        if task.started is None:
            held.add(TaskStarted(), task.task_id)
            over = Moment(clock.now() + 1_000)
            held.add(
                QuestionAsked(question=question("a", expires_at=over)), task.task_id, path_of("a")
            )
            park(held, task, arrivals_before=0)
        else:
            held.add(ended(), task.task_id)

    limits = Limits(sweep_seconds=50)
    async with opened(clock=clock, work=asks, limits=limits) as running:
        await settle()
        await running.say("a")
        await clock.elapse(0.9)
        assert len(running.worked) == 1
        await clock.elapse(0.2)
        assert len(running.worked) == 2
