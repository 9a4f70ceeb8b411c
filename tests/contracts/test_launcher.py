"""What every launcher promises: runs happen, one at a time, bounded, and none is left behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.core.clock import Moment
from penstock.core.events import (
    CancelRequested,
    Entry,
    QuestionAnswered,
    QuestionAsked,
    SessionOpened,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.ids import LogId, TaskId, new_id
from penstock.core.limits import Limits
from penstock.core.world import World
from penstock.engine.activation import Activations, Body
from penstock.engine.held import HeldLog
from penstock.engine.inline import InlineLauncher
from penstock.engine.state import TaskState
from penstock.testing.clock import FakeClock, settle
from penstock.testing.log import MemoryLog
from tests.happenings import ANN, ended, message, question
from tests.house import Work, end, finish


class Yard:
    """A launcher, its log, and a body that stands still where the test wants it."""

    def __init__(self, log: MemoryLog, clock: FakeClock, limits: Limits, work: Work) -> None:
        self.log = log
        self.clock = clock
        self.at_work = 0
        self.most_at_work = 0
        self.worked: list[TaskId] = []
        self.gates: dict[LogId, asyncio.Event] = {}
        self._finish = work
        world = World(clock, limits, new_id)
        body = Body(work=self._work, end=end)
        activations = Activations(log, body, world, owner=new_id("run"))
        self.launcher = InlineLauncher(log, activations, world)

    async def _work(self, held: HeldLog, task: TaskState) -> None:
        self.worked.append(task.task_id)
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            if gate := self.gates.get(held.state.log_id):
                await gate.wait()
            await self._finish(held, task)
        finally:
            self.at_work -= 1

    def stop_at(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(LogId(name), asyncio.Event())

    async def say(self, name: str, *, wake: bool = True) -> TaskId:
        task_id = TaskId(new_id("task"))
        entries = [Entry(message(), task_id)]
        if not await self.log.head(LogId(name)):
            opened = SessionOpened(profile_id=ANN, agent="assistant", title="")
            entries.insert(0, Entry(opened))
        await self.log.send(LogId(name), entries)
        if wake:
            self.launcher.wake(LogId(name))
        return task_id


@asynccontextmanager
async def opened(
    log: MemoryLog | None = None,
    clock: FakeClock | None = None,
    *,
    limits: Limits | None = None,
    work: Work = finish,
) -> AsyncIterator[Yard]:
    clock = clock or FakeClock()
    limits = limits or Limits()
    yard = Yard(log or MemoryLog(clock, limits), clock, limits, work)
    before = asyncio.all_tasks()
    await yard.launcher.open()
    try:
        yield yard
    finally:
        await yard.launcher.close()
        assert asyncio.all_tasks() - before == set()


async def test_a_log_that_is_woken_is_run() -> None:
    async with opened() as yard:
        task_id = await yard.say("a")
        await settle()
        assert yard.worked == [task_id]


async def test_a_log_that_needs_a_run_gets_one_without_being_told() -> None:
    """A crash between the commit and the wake loses nothing."""
    async with opened() as yard:
        await settle()
        task_id = await yard.say("a", wake=False)
        await settle()
        assert yard.worked == []
        await yard.clock.elapse(2)
        assert yard.worked == [task_id]


async def test_what_was_left_by_those_before_is_done_at_the_start() -> None:
    clock = FakeClock()
    log = MemoryLog(clock)
    async with opened(log, clock) as first:
        await first.launcher.close()
        task_id = await first.say("a", wake=False)
    async with opened(log, clock) as yard:
        await settle()
        assert yard.worked == [task_id]


async def test_who_died_is_followed_when_the_lease_is_over() -> None:
    async with opened() as yard:
        await yard.say("a", wake=False)
        await yard.log.acquire(LogId("a"), "dead")
        await yard.clock.elapse(2.5)
        assert yard.worked == []
        await yard.clock.elapse(2.5)
        assert len(yard.worked) == 1


async def test_never_two_at_once_on_one_log() -> None:
    async with opened() as yard:
        gate = yard.stop_at("a")
        await yard.say("a")
        for _ in range(5):
            await yard.say("a")
            yard.launcher.wake(LogId("a"))
            await settle()
        assert yard.at_work == 1
        gate.set()
        await settle()
        assert len(yard.worked) == 6
        assert yard.most_at_work == 1


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
    async with opened() as yard:
        gate = yard.stop_at("a")
        await yard.say("a")
        if moment != "before it begins":
            await settle()
        if moment == "when it is done":
            gate.set()
        await yard.say("a")
        gate.set()
        await settle()
        assert len(yard.worked) == 2


async def test_no_more_than_so_many_run_at_once_and_all_have_their_turn() -> None:
    async with opened(limits=Limits(activations=2)) as yard:
        gates = [yard.stop_at(name) for name in "abcde"]
        for name in "abcde":
            await yard.say(name)
        await settle()
        assert yard.at_work == 2
        for gate in gates:
            gate.set()
        await settle()
        assert (len(yard.worked), yard.most_at_work) == (5, 2)


async def test_a_log_that_is_woken_again_and_again_does_not_take_the_turn_of_others() -> None:
    async with opened(limits=Limits(activations=1)) as yard:
        gate = yard.stop_at("busy")
        await yard.say("busy")
        await settle()
        other = await yard.say("quiet")
        await yard.say("busy")
        gate.set()
        await settle()
        assert yard.worked.index(other) <= 2


async def test_a_wake_for_later_waits_for_its_time() -> None:
    async with opened() as yard:
        await settle()
        await yard.say("a", wake=False)
        later = Moment(yard.clock.now() + 1_500)
        yard.launcher.wake(LogId("a"), not_before=later)
        await yard.clock.elapse(1.4)
        assert yard.worked == []
        await yard.clock.elapse(0.2)
        assert len(yard.worked) == 1


async def ask_for_an_hour(held: HeldLog, task: TaskState) -> None:
    if task.started is None:
        held.add(TaskStarted(), task.task_id)
        expires = Moment(held.state.last_at + 3_600_000)
        held.add(QuestionAsked(question=question("a", expires_at=expires)), task.task_id)
        held.add(TaskSuspended(questions=tuple(task.waiting)), task.task_id)
    else:
        held.add(ended(), task.task_id)


@pytest.mark.slow("half an hour on the clock, a sweep every two seconds of it")
async def test_the_time_of_a_question_is_kept_over_a_restart() -> None:
    clock = FakeClock()
    log = MemoryLog(clock)
    async with opened(log, clock, work=ask_for_an_hour) as yard:
        await yard.say("a")
        await clock.elapse(1_800)
        assert len(yard.worked) == 1
    async with opened(log, clock, work=ask_for_an_hour) as yard:
        await clock.elapse(1_799)
        assert yard.worked == []
        await clock.elapse(2)
        assert len(yard.worked) == 1
    kinds = [type(record.event) for record in await log.read(LogId("a"))]
    assert kinds[-3:] == [QuestionAnswered, TaskResumed, TaskEnded]


async def test_a_cancel_reaches_what_runs() -> None:
    async with opened() as yard:
        yard.stop_at("a")
        task_id = await yard.say("a")
        await settle()
        await yard.log.send(LogId("a"), [Entry(CancelRequested(), task_id)])
        yard.launcher.wake(LogId("a"))
        await settle()
        assert yard.at_work == 0
        last = (await yard.log.read(LogId("a")))[-1].event
        assert isinstance(last, TaskEnded)


async def test_closing_ends_what_runs_and_gives_its_lease_back_with_the_work() -> None:
    async with opened(limits=Limits(shutdown_seconds=0)) as yard:
        yard.stop_at("a")
        await yard.say("a")
        await settle()
        await yard.launcher.close()
        assert yard.at_work == 0
        assert [each.log_id for each in await yard.log.pending(limit=9)] == ["a"]


async def test_closing_lets_what_runs_end_for_a_while() -> None:
    async with opened() as yard:
        gate = yard.stop_at("a")
        task_id = await yard.say("a")
        await settle()
        closing = asyncio.ensure_future(yard.launcher.close())
        await settle()
        gate.set()
        await closing
        last = (await yard.log.read(LogId("a")))[-1]
        assert (last.task_id, type(last.event)) == (task_id, TaskEnded)


async def test_a_closed_launcher_takes_no_new_work() -> None:
    async with opened() as yard:
        gate = yard.stop_at("a")
        await yard.say("a")
        await settle()
        closing = asyncio.ensure_future(yard.launcher.close())
        await settle()
        await yard.say("b")
        yard.launcher.wake(LogId("b"), not_before=Moment(yard.clock.now() + 1))
        gate.set()
        await closing
        await yard.clock.elapse(10)
        assert len(yard.worked) == 1
        assert await yard.log.head(LogId("b")) == 2
