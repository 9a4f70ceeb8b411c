"""One timer renews the leases of all running logs without recent writes."""

import asyncio
from collections.abc import Sequence

import pytest

from penstock.chat.requests import NewCall, NewMessage
from penstock.core.clock import SystemClock
from penstock.core.errors import LeaseLost, StoreError
from penstock.core.events.events import (
    CancelRequested,
    Entry,
    MessageReceived,
    Record,
    SessionOpened,
    TaskEnded,
    TaskResumed,
    TaskStarted,
)
from penstock.core.ids import LogId, MessageId, TaskId, new_id
from penstock.core.limits import Limits, World
from penstock.core.profile import LOCAL
from penstock.core.task import TaskStatus
from penstock.engine.held_log import HeldLog, LeaseKeeper
from penstock.engine.session_state import SessionState
from penstock.engine.task_state import TaskState
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.logs.log import Lease
from penstock.store.logs.quarantine import SUSPECT
from penstock.testing.clock import FakeClock, settle
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.activations import ActiveLog, finish
from tests.kit.session_events import ANN, LOG, ONE, TWO, ended, message
from tests.kit.tools import Act, Gate

TASK = TaskId("task_1")
WORLD = World(SystemClock(), Limits(), new_id)


class WatchedLog(MemoryLog):
    """Says when a lease is renewed, or fails to."""

    def __init__(self, failure: BaseException | None = None) -> None:
        super().__init__(WORLD.clock)
        self.renewed: asyncio.Queue[LogId] = asyncio.Queue()
        self.failure = failure

    async def renew(self, lease: Lease, *, after: int) -> Sequence[Record]:
        self.renewed.put_nowait(lease.log_id)
        if self.failure is not None:
            raise self.failure
        return await super().renew(lease, after=after)


async def hold(log: MemoryLog, *, since: float) -> HeldLog:
    received = MessageReceived(message_id=MessageId("msg_1"), content="Hello")
    opened = SessionOpened(profile_id=LOCAL, agent="assistant", title="Hello")
    await log.send(LOG, [Entry(opened), Entry(received, TASK)])
    lease = await log.acquire(LOG, "me")
    assert lease is not None
    return HeldLog(log, lease, SessionState(LOG), WORLD, since=since)


async def test_an_idle_lease_is_renewed_while_it_is_held() -> None:
    log = WatchedLog()
    held = {LOG: await hold(log, since=WORLD.clock.monotonic() - 1)}
    LeaseKeeper(held, 0.001).watch()
    assert [await log.renewed.get() for _ in range(3)] == [LOG] * 3
    held.clear()


async def test_a_lease_that_was_just_acquired_is_not_changed() -> None:
    log = WatchedLog()
    fresh = await hold(log, since=WORLD.clock.monotonic() + 1_000)
    other = LogId("conv_2")
    held = {LOG: fresh, other: await hold(WatchedLog(), since=0)}
    LeaseKeeper(held, 0.001).watch()
    silent = held[other]
    assert silent.is_silent(1)
    assert not fresh.is_silent(1)
    assert log.renewed.empty()
    held.clear()


async def test_work_whose_lease_is_lost_is_stopped_once() -> None:
    log = WatchedLog(LeaseLost("gone"))
    held = {LOG: await hold(log, since=0)}
    lost = asyncio.Event()
    held[LOG].when_lost(lost.set)
    LeaseKeeper(held, 0.001).watch()
    await lost.wait()
    asked, reason = log.renewed.qsize(), held[LOG].lost
    lost.clear()
    held[LOG].lose(LeaseLost("again"))
    assert (asked, reason, lost.is_set()) == (1, held[LOG].lost, False)
    held.clear()


async def test_a_failed_renewal_is_reported_to_operators(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = "the lease of log conv_1 could not be renewed yet: full"
    log = WatchedLog(StoreError("full"))
    held = {LOG: await hold(log, since=0)}
    LeaseKeeper(held, 0.001).watch()
    await log.renewed.get()
    await log.renewed.get()
    assert said in caplog.messages
    held.clear()


class SlowLog(WatchedLog):
    """Takes as long to renew a lease as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def renew(self, lease: Lease, *, after: int) -> Sequence[Record]:
        records = await super().renew(lease, after=after)
        await self.gate.wait()
        return records


async def test_a_slow_store_is_asked_once_for_each_lease_and_waited_for_at_the_end() -> None:
    """Architecture: "Every background task is owned and awaited at shutdown"."""
    log, looks = SlowLog(), WatchedLog()
    other = LogId("conv_2")
    held = {LOG: await hold(log, since=0), other: await hold(looks, since=0)}
    keeper = LeaseKeeper(held, 0.001)
    keeper.watch()
    for _ in range(3):
        await looks.renewed.get()
    assert log.renewed.qsize() == 1
    held.clear()
    resting = asyncio.ensure_future(keeper.rest())
    await settle()
    assert not resting.done()
    log.gate.set()
    await resting


class LostLog(MemoryLog):
    """Another process takes the log, or erases it."""

    is_lost = False

    async def renew(self, lease: Lease, *, after: int) -> Sequence[Record]:
        if self.is_lost:
            raise LeaseLost("log 'conv_1' was erased")
        return await super().renew(lease, after=after)


@pytest.mark.parametrize("swallows", [False, True])
async def test_the_work_on_a_log_that_was_erased_stops_at_once(
    swallows: bool, caplog: pytest.LogCaptureFixture
) -> None:
    here, stopped = asyncio.Event(), asyncio.Event()

    async def work(held: HeldLog, task: TaskState) -> None:
        held.add(TaskStarted(), task.task_id)
        here.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            if not swallows:
                raise
            await held.refresh()

    log = LostLog(FakeClock())
    active = ActiveLog(work, log=log)
    await active.say()
    running = asyncio.ensure_future(active.run())
    await here.wait()
    log.is_lost = True
    await active.activations.refresh(LOG)
    assert await asyncio.wait_for(running, 5) is None
    assert (stopped.is_set(), running.cancelling()) == (True, 0)
    assert caplog.messages == ["the work on log conv_1 stops: log 'conv_1' was erased"]


async def test_a_cancelled_queued_task_ends_while_another_runs() -> None:
    here, go_on = asyncio.Event(), asyncio.Event()

    async def work(held: HeldLog, task: TaskState) -> None:
        held.add(TaskStarted(), task.task_id)
        here.set()
        await go_on.wait()
        held.add(ended(), task.task_id)

    active = ActiveLog(work)
    await active.say()
    await active.say(TWO, is_new=False)
    running = asyncio.ensure_future(active.run())
    await here.wait()
    await active.log.send(LOG, [Entry(CancelRequested(), TWO)])
    await active.activations.refresh(LOG)
    task = await active.log.find_task(TWO)
    assert task is not None
    assert task.status is TaskStatus.CANCELLED
    go_on.set()
    await running
    assert active.worked == [ONE]
    ends = [each.status for each in await active.events() if isinstance(each, TaskEnded)]
    assert ends == [TaskStatus.CANCELLED, TaskStatus.SUCCEEDED]


async def test_work_whose_log_another_process_acquired_stops_at_the_next_poll() -> None:
    async def stand(held: HeldLog, task: TaskState) -> None:
        await asyncio.Event().wait()

    active = ActiveLog(stand)
    await active.say()
    run = asyncio.create_task(active.run())
    await settle()
    active.clock.advance(60)
    assert await active.log.acquire(LOG, "other")
    await active.activations.refresh(LOG)
    await settle()
    assert run.done()
    assert active.worked == [ONE]
    assert not active.activations.is_held(LOG)
    await asyncio.gather(run, return_exceptions=True)


async def test_a_task_started_here_resumes_under_the_same_lease() -> None:
    active = ActiveLog(finish)
    opened = SessionOpened(profile_id=ANN, agent="assistant", title="")
    entries = [Entry(opened), Entry(message(), ONE), Entry(TaskStarted(), ONE)]
    records = await active.activations.begin(LOG, entries, head=0)
    assert records is not None
    assert [record.seq for record in records] == [1, 2, 3]
    assert not await active.is_free()
    await active.activations.ensure_readable(LOG)
    assert await active.activations.begin(LOG, entries, head=0) is None
    await active.run()
    assert active.worked == [ONE]
    assert await active.is_free()


async def test_an_unclaimed_lease_is_released_at_the_end() -> None:
    active = ActiveLog(finish)
    opened = SessionOpened(profile_id=ANN, agent="assistant", title="")
    await active.activations.begin(LOG, [Entry(opened), Entry(message(), ONE)], head=0)
    await active.activations.close()
    assert await active.is_free()
    assert await active.activations.begin(LOG, [Entry(message(), TWO)], head=2) is None
    assert await active.log.head(LOG) == 2


@pytest.mark.parametrize("deaths", range(4))
async def test_operators_read_that_a_log_is_on_probation_once_processes_died_at_its_place(
    deaths: int, caplog: pytest.LogCaptureFixture
) -> None:
    active = ActiveLog(finish)
    await active.say()
    for number in range(deaths):
        assert await active.log.acquire(LOG, f"dead-{number}")
        active.clock.advance(600)
    await active.run()
    said = [each.getMessage() for each in caplog.records if "on probation" in each.getMessage()]
    assert len(said) == (deaths >= SUSPECT)
    assert active.worked == [ONE]


@pytest.mark.parametrize("kind", ["call", "message"])
async def test_what_waits_for_a_slot_runs_elsewhere_and_is_no_crash(
    kind: str,
) -> None:
    """A process whose slots are taken holds no lease of it, so nothing can expire."""
    clock, gate = FakeClock(), Gate()
    tools = [Act("slow", gate, direct_call=True), look := Act("look", direct_call=True)]
    full = MemoryStorage(clock=clock, limits=Limits(activations=1, shutdown_seconds=0))
    idle = MemoryStorage(clock=clock, log=full.log, limits=Limits(shutdown_seconds=0))
    model = ScriptedModel([call("look", n=1), say("Done")])
    async with memory_runtime(tools=tools, place=full, model=model) as busy:
        await busy.start_call(NewCall(tool_id="slow", input={}))
        await gate.reached()
        if kind == "call":
            task_id = await busy.start_call(NewCall(tool_id="look", input={"n": 1}))
        else:
            task_id = (await busy.requests.send(NewMessage(content="Look"))).task_id
        await clock.elapse(20)
        assert look.runs == []
        async with memory_runtime(tools=tools, place=idle, model=model) as other:
            await clock.elapse(20)
            assert await other.requests.wait(task_id)
        gate.open()
        await clock.elapse(20)
    assert look.runs == [{"n": 1}]
    task = await full.log.find_task(task_id)
    assert task is not None
    written = [record.event for record in await full.log.read(task.log_id)]
    assert not [event for event in written if isinstance(event, TaskResumed)]
