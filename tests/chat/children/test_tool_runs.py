"""Flow runs that tools start, without a tool."""

import asyncio

import pytest
from msgspec.structs import replace

from penstock.app.runtime import Runtime
from penstock.chat.children.ends import EndNotifier
from penstock.core.envelope import Envelope
from penstock.core.errors import NotFound
from penstock.core.events.events import CancelRequested, Entry, Event, QuestionAsked, TaskStarted
from penstock.core.events.flow_events import FlowRequested, RunEnded
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import LOCAL_PROFILE
from penstock.engine.task_state import TaskState
from penstock.models.scripted import ScriptedModel
from penstock.testing.clock import FakeClock, settle
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.resources import FlowRequest, Runs
from tests.kit.flows import WORKERS, by_task, finish, flows_of, steps
from tests.kit.session_events import ANN, LOG, ONE, ended, held_log
from tests.kit.waiting_chat import ASKS

PLAIN = steps("  - {id: one, agent: scout}")


def request(key: str = "k", command: str = "demo") -> FlowRequest:
    waiter = (LogId("conv_1"), TaskId("task_1"))
    return FlowRequest(command=command, key=key, depth=1, profile=LOCAL_PROFILE, waiter=waiter)


def runs_of(runtime: Runtime) -> Runs:
    runs = runtime.parts.tools.callbacks.runs
    assert runs is not None
    return runs


async def came_to(runs: Runs, run_id: TaskId) -> Envelope:
    """Wait for the end of a run that asks no person."""
    envelope = await runs.wait(run_id, TaskId("task_1"))
    assert envelope is not None
    return envelope


@pytest.mark.parametrize("is_autonomous", [True, False])
async def test_a_run_started_by_an_autonomous_run_asks_no_person(*, is_autonomous: bool) -> None:
    """flows, 2: "an autonomous run: a run in which no person is asked"; its runs are part of it."""
    place = MemoryStorage(flows=flows_of(demo=ASKS))
    chosen = finish(branch="Yes")
    model = ScriptedModel(by_task({"Sure?": chosen}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        request_of_tool = replace(request(), is_autonomous=is_autonomous)
        run_id = await runs_of(runtime).start(request_of_tool)
        await runs_of(runtime).wait(run_id, TaskId("task_1"))
        records = await runtime.parts.storage.log.read(LogId(run_id))
    asked = [each for each in records if isinstance(each.event, QuestionAsked)]
    assert bool(asked) is not is_autonomous


async def test_a_key_starts_one_run() -> None:
    place = MemoryStorage(flows=flows_of(demo=PLAIN))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        runs = runs_of(runtime)
        first, again, other = [await runs.start(request(key)) for key in "aab"]
        assert (await came_to(runs, first)).output["runId"] == first
        assert (await came_to(runs, other)).ok
        assert await runs.start(request("a")) == first
    assert first == again != other


async def test_an_unfinished_run_resumes_for_the_call_that_finds_it() -> None:
    """No sweep finds the run, because the clock does not move."""
    clock = FakeClock()
    place = MemoryStorage(flows=flows_of(demo=PLAIN), clock=clock)
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        await settle()
        left = replace(FLOW, profile_id=LOCAL_PROFILE.profile_id)
        await runtime.parts.storage.log.send(LogId("task_a"), [Entry(left, TaskId("task_a"))])
        await settle()
        run_id = await runs_of(runtime).start(request("a"))
        async with asyncio.timeout(5):
            assert (await came_to(runs_of(runtime), run_id)).ok


async def test_aborting_an_ended_or_deleted_run_has_no_effect() -> None:
    place = MemoryStorage(flows=flows_of(demo=PLAIN))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        runs = runs_of(runtime)
        run_id = await runs.start(request())
        await came_to(runs, run_id)
        for each in (run_id, TaskId("task_none")):
            await runs.abort(each, LOCAL_PROFILE)
        assert (await came_to(runs, run_id)).ok


async def test_an_unknown_flow_starts_no_run() -> None:
    async with memory_runtime(place=MemoryStorage(flows=flows_of(demo=PLAIN))) as runtime:
        with pytest.raises(NotFound, match="Did you mean 'demo'"):
            await runs_of(runtime).start(request(command="demi"))


async def test_a_started_run_is_found_after_its_flow_was_removed() -> None:
    log = MemoryStorage(flows=flows_of(demo=PLAIN))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=log) as runtime:
        run_id = await runs_of(runtime).start(request())
        await came_to(runs_of(runtime), run_id)
    log.flows = flows_of(other=PLAIN)
    async with memory_runtime(model=model, agents=WORKERS, place=log) as runtime:
        assert await runs_of(runtime).start(request()) == run_id
        with pytest.raises(NotFound):
            await runs_of(runtime).start(request("another"))


async def test_a_run_that_waits_for_people_has_no_outcome_yet() -> None:
    place = MemoryStorage(flows=flows_of(demo=ASKS))
    async with memory_runtime(agents=WORKERS, place=place) as runtime:
        runs = runs_of(runtime)
        run_id = await runs.start(request())
        assert await runs.wait(run_id, TaskId("task_1")) is None


FLOW = FlowRequested(command="demo", profile_id=ANN)
WAITED = replace(FLOW, waiter_log=LOG, waiter=ONE)
CHILD = TaskId("task_9")


async def notified(brief: FlowRequested, *awaited: str, is_over: bool = False) -> list[Event]:
    """Report the end of a run; return the events of the waiting task's log."""
    log = MemoryLog(FakeClock())
    held = await held_log(TaskStarted(), *([ended()] if is_over else []), log=log)
    for each in awaited:
        await log.send(LogId(each), [Entry(FLOW, TaskId(each))])
    task = TaskState(CHILD, brief, is_ended=True)
    task.own_waits().awaited.update(dict.fromkeys(map(TaskId, (*awaited, "task_gone"))))
    await EndNotifier(log, lambda log_id: None).notify(held, task)
    ends = [event for each in awaited for event in await log.read(LogId(each), after=1)]
    return [each.event for each in (*await log.read(LOG, after=3), *ends)]


async def test_the_waiting_task_receives_the_end_of_a_run() -> None:
    assert await notified(WAITED) == [RunEnded(run_id=CHILD)]
    assert await notified(FLOW) == []


async def test_an_ended_or_deleted_task_receives_no_end_of_a_run() -> None:
    assert await notified(WAITED, is_over=True) == [ended()]
    assert await notified(replace(WAITED, waiter_log=LogId("conv_x"))) == []
    assert await notified(replace(WAITED, waiter=TaskId("task_x"))) == []


async def test_runs_that_no_task_awaits_are_cancelled() -> None:
    assert await notified(FLOW, "task_7", "task_8") == 2 * [CancelRequested()]
