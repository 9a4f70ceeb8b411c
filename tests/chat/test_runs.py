"""Runs of flows that tools want, without a tool."""

import pytest

from penstock.app.runtime import Runtime
from penstock.core.errors import NotFound
from penstock.core.ids import TaskId
from penstock.core.profile import LOCAL_PROFILE
from penstock.models.scripted import ScriptedModel
from penstock.testing.runtime import MemoryPlace, memory_runtime
from penstock.tools.errands import RunErrand, Runs
from tests.kit.flows import WORKERS, by_task, flows_of, steps

ONE = steps("  - {id: one, agent: scout}")


def errand(key: str = "k", command: str = "demo") -> RunErrand:
    return RunErrand(command=command, key=key, depth=1, profile=LOCAL_PROFILE)


def runs_of(runtime: Runtime) -> Runs:
    runs = runtime.parts.errands.runs
    assert runs is not None
    return runs


async def test_a_run_is_begun_once_for_each_key() -> None:
    place = MemoryPlace(flows=flows_of(demo=ONE))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        runs = runs_of(runtime)
        first, again, other = [await runs.begin(errand(key)) for key in "aab"]
        assert (await runs.end(first)).output["runId"] == first
        assert (await runs.end(other)).ok
        assert await runs.begin(errand("a")) == first
    assert first == again != other


async def test_what_has_ended_or_is_gone_need_not_be_aborted() -> None:
    place = MemoryPlace(flows=flows_of(demo=ONE))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        runs = runs_of(runtime)
        run_id = await runs.begin(errand())
        await runs.end(run_id)
        for each in (run_id, TaskId("task_none")):
            await runs.abort(each, LOCAL_PROFILE)
        assert (await runs.end(run_id)).ok


async def test_a_flow_that_there_is_not_begins_nothing() -> None:
    async with memory_runtime(place=MemoryPlace(flows=flows_of(demo=ONE))) as runtime:
        with pytest.raises(NotFound, match="Did you mean 'demo'"):
            await runs_of(runtime).begin(errand(command="demi"))
