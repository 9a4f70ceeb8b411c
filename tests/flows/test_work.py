"""A run as a task: rejected, cancelled, run twice for one key, gone on with after a crash."""

import pytest

from penstock.chat.message import NewRun
from penstock.core.errors import IdempotencyConflict
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.core.task import TaskStatus
from penstock.models.scripted import ScriptedModel, call
from penstock.testing.runtime import MemoryPlace, memory_runtime
from tests.kit.flows import RUN, WORKERS, by_task, flows_of, run_in, steps, visits, worker
from tests.kit.tools import Act, Gate

ASKS = """
  - {id: web, agent: scout, task: web}
  - {id: ask, question: "Go on?", branches: {Yes: end}}
  - {id: end, agent: scout, task: end}
"""
ONE = "  - {id: web, agent: scout, task: web}"


async def test_an_unknown_flow_is_a_run_that_was_rejected() -> None:
    """It is stored as a run with status `rejected`, so that schedules and tools see it."""
    place = MemoryPlace(flows=flows_of(demo=steps(ONE)))
    async with memory_runtime(agents=WORKERS, place=place) as runtime:
        envelope = await runtime.run_flow(NewRun(command="demmo"), task_id=RUN)
        record = await runtime.parts.projections.find_task(RUN)
    assert envelope.output["status"] == "rejected"
    assert "Did you mean 'demo'?" in envelope.output["reason"]
    assert record is not None
    assert (record.kind, record.status) == ("flow", TaskStatus.FAILED)


async def test_a_run_that_is_cancelled_is_aborted_and_its_tool_is_stopped() -> None:
    """Abort: running steps become `aborted`, status `aborted`."""
    gate = Gate()
    agents = [worker("scout", tools=("slow",))]
    place = MemoryPlace(flows=flows_of(demo=steps(f"{ONE}\n  - {{id: next, agent: scout}}")))
    model = ScriptedModel([call("slow")])
    tools = [Act("slow", gate)]
    async with memory_runtime(model=model, agents=agents, tools=tools, place=place) as runtime:
        await runtime.start_flow(NewRun(command="demo"), task_id=RUN)
        await gate.reached()
        await runtime.cancel(RUN)
        reply = await runtime.wait(RUN)
    assert reply is not None
    assert reply.status is TaskStatus.CANCELLED
    assert reply.envelope is not None
    result = reply.envelope.output
    assert (result["status"], result["reason"]) == ("aborted", "aborted by local")
    assert result["results"]["web"]["status"] == "aborted"


async def test_a_flow_that_is_changed_while_it_runs_goes_on_as_it_began() -> None:
    """A flow edited while it runs: the run keeps the version it started with."""
    flows = flows_of(demo=steps(ASKS))
    place = MemoryPlace(flows=flows)
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
        flows.texts.clear()
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        (asked,) = await runtime.parts.projections.open_questions(LogId(RUN))
        await runtime.answer(asked.question.question_id, {"value": "Yes"})
        reply = await runtime.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    assert visits(reply.envelope) == {"web": 1, "ask": 1, "end": 1}


async def test_one_key_is_one_run() -> None:
    place = MemoryPlace(flows=flows_of(demo=steps(ONE)))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        asked = NewRun(command="demo", idempotency=("key", "same"))
        first = await runtime.run_flow(asked, task_id=RUN)
        again = await runtime.run_flow(asked, task_id=TaskId("task_2"))
        with pytest.raises(IdempotencyConflict):
            await runtime.start_flow(NewRun(command="demo", idempotency=("key", "other")))
    assert first.output["runId"] == again.output["runId"] == RUN
    assert len(model.requests) == 1


async def test_a_run_may_start_so_many_steps_and_no_more() -> None:
    """More than `limits.flow_visits` step starts in a run: hard, `visit_limit`."""
    text = steps("\n".join(f"  - {{id: s{n}, agent: scout, task: s{n}}}" for n in range(3)))
    flows = flows_of(demo=f"max_concurrent: 1\n{text}")
    place = MemoryPlace(flows=flows, limits=Limits(flow_visits=2))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        envelope = await run_in(runtime)
    assert envelope.output["reason"] == "more than 2 steps were started in one run"
    assert visits(envelope) == {"s0": 1, "s1": 1, "s2": 1}
    assert len(model.requests) == 2
