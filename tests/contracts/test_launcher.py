"""The contract of every launcher: each log gets its run, one at a time, bounded."""

import asyncio

import pytest

from penstock.core.clock import Moment
from penstock.core.events.events import (
    CancelRequested,
    Entry,
    QuestionAnswered,
    QuestionAsked,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.engine.held_log import HeldLog
from penstock.engine.task_state import TaskState
from penstock.testing.clock import FakeClock, settle
from penstock.testing.log import MemoryLog
from tests.kit.activations import finish
from tests.kit.launcher import opened
from tests.kit.session_events import ended, question


async def test_a_log_that_is_woken_is_run() -> None:
    async with opened() as running:
        task_id = await running.say("a")
        await settle()
        assert running.worked == [task_id]


async def test_a_log_that_needs_a_run_gets_one_without_a_wake() -> None:
    """A crash between the commit and the wake loses nothing."""
    async with opened() as running:
        await settle()
        task_id = await running.say("a", wake=False)
        await settle()
        assert running.worked == []
        await running.clock.elapse(2)
        assert running.worked == [task_id]


async def test_work_left_by_an_earlier_process_is_done_at_start() -> None:
    clock = FakeClock()
    log = MemoryLog(clock)
    async with opened(log, clock) as first:
        await first.launcher.close()
        task_id = await first.say("a", wake=False)
    async with opened(log, clock) as running:
        await settle()
        assert running.worked == [task_id]


async def test_a_dead_holder_is_replaced_when_its_lease_expires() -> None:
    async with opened() as running:
        await running.say("a", wake=False)
        await running.log.acquire(LogId("a"), "dead")
        await running.clock.elapse(2.5)
        assert running.worked == []
        await running.clock.elapse(2.5)
        assert len(running.worked) == 1


async def test_never_two_at_once_on_one_log() -> None:
    async with opened() as running:
        gate = running.stop_at("a")
        await running.say("a")
        for _ in range(5):
            await running.say("a")
            running.launcher.wake(LogId("a"))
            await settle()
        assert running.at_work == 1
        gate.set()
        await settle()
        assert len(running.worked) == 6
        assert running.most_at_work == 1


async def test_never_two_at_once_over_two_launchers() -> None:
    clock = FakeClock()
    log = MemoryLog(clock)
    async with opened(log, clock) as one, opened(log, clock) as other:
        gate = one.stop_at("a")
        await one.say("a")
        await settle()
        other.launcher.wake(LogId("a"))
        await settle()
        assert (one.at_work, other.worked) == (1, [])
        gate.set()


@pytest.mark.parametrize("moment", ["before it begins", "while it works", "when it is done"])
async def test_a_wake_is_not_lost_whenever_it_comes(moment: str) -> None:
    async with opened() as running:
        gate = running.stop_at("a")
        await running.say("a")
        if moment != "before it begins":
            await settle()
        if moment == "when it is done":
            gate.set()
        await running.say("a")
        gate.set()
        await settle()
        assert len(running.worked) == 2


async def test_the_limit_of_concurrent_runs_holds_and_all_run() -> None:
    async with opened(limits=Limits(activations=2)) as running:
        gates = [running.stop_at(name) for name in "abcde"]
        for name in "abcde":
            await running.say(name)
        await settle()
        assert running.at_work == 2
        for gate in gates:
            gate.set()
        await settle()
        assert (len(running.worked), running.most_at_work) == (5, 2)


async def test_a_log_that_is_woken_again_and_again_does_not_take_the_turn_of_others() -> None:
    async with opened(limits=Limits(activations=1)) as running:
        gate = running.stop_at("busy")
        await running.say("busy")
        await settle()
        other = await running.say("quiet")
        await running.say("busy")
        gate.set()
        await settle()
        assert running.worked.index(other) <= 2


async def test_a_wake_for_later_waits_for_its_time() -> None:
    async with opened() as running:
        await settle()
        await running.say("a", wake=False)
        later = Moment(running.clock.now() + 1_500)
        running.launcher.wake(LogId("a"), not_before=later)
        await running.clock.elapse(1.4)
        assert running.worked == []
        await running.clock.elapse(0.2)
        assert len(running.worked) == 1


async def ask_for_an_hour(held: HeldLog, task: TaskState) -> None:
    if task.started is None:
        held.add(TaskStarted(), task.task_id)
        expires = Moment(held.state.last_at + 3_600_000)
        held.add(QuestionAsked(question=question("a", expires_at=expires)), task.task_id)
        held.add(TaskSuspended(questions=tuple(task.waits.waiting)), task.task_id)
    else:
        held.add(ended(), task.task_id)


@pytest.mark.slow("half an hour on the clock, a sweep every two seconds of it")
async def test_the_time_of_a_question_is_kept_over_a_restart() -> None:
    clock = FakeClock()
    log = MemoryLog(clock)
    async with opened(log, clock, work=ask_for_an_hour) as running:
        await running.say("a")
        await clock.elapse(1_800)
        assert len(running.worked) == 1
    async with opened(log, clock, work=ask_for_an_hour) as running:
        await clock.elapse(1_799)
        assert running.worked == []
        await clock.elapse(2)
        assert len(running.worked) == 1
    kinds = [type(record.event) for record in await log.read(LogId("a"))]
    assert kinds[-3:] == [QuestionAnswered, TaskResumed, TaskEnded]


async def test_a_cancel_reaches_running_work() -> None:
    async with opened() as running:
        running.stop_at("a")
        task_id = await running.say("a")
        await settle()
        await running.log.send(LogId("a"), [Entry(CancelRequested(), task_id)])
        running.launcher.wake(LogId("a"))
        await settle()
        assert running.at_work == 0
        last = (await running.log.read(LogId("a")))[-1].event
        assert isinstance(last, TaskEnded)


async def test_closing_ends_running_work_and_releases_its_lease() -> None:
    async with opened(limits=Limits(shutdown_seconds=0)) as running:
        running.stop_at("a")
        await running.say("a")
        await settle()
        await running.launcher.close()
        assert running.at_work == 0
        assert [each.log_id for each in await running.log.pending(limit=9)] == ["a"]


async def test_closing_waits_a_while_for_running_work() -> None:
    async with opened() as running:
        gate = running.stop_at("a")
        task_id = await running.say("a")
        await settle()
        closing = asyncio.ensure_future(running.launcher.close())
        await settle()
        gate.set()
        await closing
        last = (await running.log.read(LogId("a")))[-1]
        assert (last.task_id, type(last.event)) == (task_id, TaskEnded)


async def test_a_closed_launcher_accepts_no_new_work() -> None:
    async with opened() as running:
        gate = running.stop_at("a")
        await running.say("a")
        await settle()
        closing = asyncio.ensure_future(running.launcher.close())
        await settle()
        await running.say("b")
        running.launcher.wake(LogId("b"), not_before=Moment(running.clock.now() + 1))
        gate.set()
        await closing
        await running.clock.elapse(10)
        assert len(running.worked) == 1
        assert await running.log.head(LogId("b")) == 2


async def test_an_attending_launcher_leaves_logs_without_a_wake_to_others() -> None:
    """A short command takes no work that it cannot end."""
    clock = FakeClock()
    log = MemoryLog(clock)
    async with opened(log, clock, attends=True) as running:
        foreign, told = await running.say("a", wake=False), await running.say("b")
        await clock.elapse(30)
        assert running.worked == [told]
    async with opened(log, clock) as running:
        await settle()
        assert running.worked == [foreign]


async def test_an_attending_launcher_replaces_a_dead_holder_of_its_logs() -> None:
    async with opened(attends=True) as running:
        await running.say("a", wake=False)
        await running.log.acquire(LogId("a"), "dead")
        running.launcher.wake(LogId("a"))
        await running.clock.elapse(2.5)
        assert running.worked == []
        await running.clock.elapse(2.5)
        assert len(running.worked) == 1


async def wait_for_run(held: HeldLog, task: TaskState) -> None:
    if held.state.log_id == "a" and task.started is None:
        held.add(TaskStarted(), task.task_id)
        held.add(TaskSuspended(questions=(), runs=(TaskId("run"),)), task.task_id)
    else:
        await finish(held, task)


async def test_an_attending_launcher_continues_the_runs_that_its_logs_await() -> None:
    clock = FakeClock()
    log = MemoryLog(clock)
    async with opened(log, clock, work=wait_for_run) as first:
        await first.say("a")
        await settle()
        await first.launcher.close()
        await first.say("run", wake=False)
    async with opened(log, clock, work=wait_for_run, attends=True) as running:
        await settle()
        assert running.worked == []
        running.launcher.wake(LogId("a"))
        await settle()
        assert len(running.worked) == 1
        assert isinstance((await log.read(LogId("run")))[-1].event, TaskEnded)


async def test_it_is_idle_when_no_work_runs_and_none_waits() -> None:
    async with opened(limits=Limits(activations=1)) as running:
        await running.launcher.rest()
        gate = running.stop_at("a")
        await running.say("a")
        await running.say("b")
        resting = asyncio.ensure_future(running.launcher.rest())
        await settle()
        assert not resting.done()
        gate.set()
        await resting
        assert len(running.worked) == 2


async def test_a_log_that_must_wait_for_a_slot_gets_no_lease() -> None:
    async with opened(limits=Limits(activations=2)) as running:
        gate = running.stop_at("a")
        await running.say("a")
        begun = await asyncio.gather(*(running.begin(name) for name in "bcd"))
        assert [records is not None for records in begun] == [True, False, False]
        assert await running.log.head(LogId("c")) == 0
        gate.set()
        await settle()
        assert (len(running.worked), running.most_at_work) == (2, 2)
        assert await running.begin("c")


async def test_a_log_that_waits_gets_the_slot_of_a_begin_that_wrote_nothing() -> None:
    async with opened(limits=Limits(activations=1)) as running:
        beginning = asyncio.ensure_future(running.begin("a", head=7))
        await settle(rounds=1)
        task_id = await running.say("b")
        assert await beginning is None
        await settle()
        assert running.worked == [task_id]


async def test_a_log_that_was_begun_runs_before_those_that_wait() -> None:
    async with opened(limits=Limits(activations=1)) as running:
        gates = [running.stop_at(name) for name in "ab"]
        assert await running.begin("a")
        for name in "bc":
            await running.say(name)
        running.launcher.wake(LogId("a"))
        await settle()
        assert running.at_work == 1
        for gate in gates:
            gate.set()
        await settle()
        assert (len(running.worked), running.most_at_work) == (3, 1)


async def test_a_closed_launcher_begins_nothing() -> None:
    async with opened() as running:
        await running.launcher.close()
        assert await running.begin("a") is None
        assert await running.log.head(LogId("a")) == 0
