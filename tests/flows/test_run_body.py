"""A run as a task: rejection, cancellation, idempotency key, resume after a crash."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.chat.requests import NewRun, RequestKey
from penstock.core.clock import SystemClock
from penstock.core.errors import IdempotencyConflict
from penstock.core.events.events import Record
from penstock.core.events.flow_events import FlowStarted
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.core.task import TaskStatus
from penstock.engine.budget import Allowance
from penstock.flows.run_body import allowance_of
from penstock.flows.starting import FlowSettings
from penstock.models.scripted import ScriptedModel, call
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live
from tests.kit.flows import (
    RUN,
    WORKERS,
    by_task,
    faulty,
    finish,
    flows_of,
    run_flow,
    run_in,
    see_through,
    steps,
    visits,
    worker,
)
from tests.kit.tools import Act, Gate

ASKS = """
  - {id: web, agent: scout, task: web}
  - {id: ask, question: "Go on?", branches: {Yes: end}}
  - {id: end, agent: scout, task: end}
"""
ONE = "  - {id: web, agent: scout, task: web}"


async def test_a_run_of_an_unknown_flow_is_rejected() -> None:
    """It is stored as a run with status `rejected`, so that schedules and tools see it."""
    place = MemoryStorage(flows=flows_of(demo=steps(ONE)))
    async with memory_runtime(agents=WORKERS, place=place) as runtime:
        envelope = await runtime.run_flow(NewRun(command="demmo"), task_id=RUN)
        record = await runtime.parts.storage.projections.find_task(RUN)
    assert envelope.output["status"] == "rejected"
    assert "Did you mean 'demo'?" in envelope.output["reason"]
    assert record is not None
    assert (record.kind, record.status) == ("flow", TaskStatus.FAILED)


async def test_a_cancelled_run_is_aborted_and_its_tool_stopped() -> None:
    """Abort: running steps become `aborted`, status `aborted`."""
    gate = Gate()
    agents = [worker("scout", tools=("slow",))]
    place = MemoryStorage(flows=flows_of(demo=steps(f"{ONE}\n  - {{id: next, agent: scout}}")))
    model = ScriptedModel([call("slow")])
    tools = [Act("slow", gate)]
    async with memory_runtime(model=model, agents=agents, tools=tools, place=place) as runtime:
        await runtime.start_flow(NewRun(command="demo"), task_id=RUN)
        await gate.reached()
        await runtime.requests.cancel(RUN)
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.status is TaskStatus.CANCELLED
    assert reply.envelope is not None
    result = reply.envelope.output
    assert (result["status"], result["reason"]) == ("aborted", "aborted by local")
    assert result["results"]["web"]["status"] == "aborted"


async def test_a_flow_that_is_edited_during_its_run_continues_unchanged() -> None:
    """A flow edited while it runs: the run keeps the version it started with."""
    flows = flows_of(demo=steps(ASKS))
    place = MemoryStorage(flows=flows)
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
        flows.texts.clear()
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        (asked,) = await runtime.parts.storage.projections.open_questions(LogId(RUN))
        await runtime.requests.answer(asked.question.question_id, {"value": "Yes"})
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    assert visits(reply.envelope) == {"web": 1, "ask": 1, "end": 1}


async def test_requests_with_one_key_start_one_run() -> None:
    place = MemoryStorage(flows=flows_of(demo=steps(ONE)))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        asked = NewRun(command="demo", idempotency=RequestKey("key", "same"))
        first = await runtime.run_flow(asked, task_id=RUN)
        again = await runtime.run_flow(asked, task_id=TaskId("task_2"))
        with pytest.raises(IdempotencyConflict):
            await runtime.start_flow(NewRun(command="demo", idempotency=RequestKey("key", "other")))
    assert first.output["runId"] == again.output["runId"] == RUN
    assert len(model.requests) == 1


async def test_a_run_over_its_limit_of_visits_ends() -> None:
    """More than `limits.flow_visits` step starts in a run: hard, `visit_limit`."""
    text = steps("\n".join(f"  - {{id: s{n}, agent: scout, task: s{n}}}" for n in range(3)))
    flows = flows_of(demo=f"max_concurrent: 1\n{text}")
    place = MemoryStorage(flows=flows, limits=Limits(flow_visits=2))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        envelope = await run_in(runtime)
    assert envelope.output["reason"] == "more than 2 steps were started in one run"
    assert visits(envelope) == {"s0": 1, "s1": 1, "s2": 1}
    assert len(model.requests) == 2


async def test_an_internal_error_ends_the_run_as_an_error_and_not_as_aborted() -> None:
    """A run ends with `error` and the message; it is `aborted` only on request."""
    envelope = await run_flow(
        f"{ONE}\n  - {{id: next, agent: scout, blockedBy: [web]}}",
        ScriptedModel([]),
        agents=[faulty("scout")],
    )
    result = envelope.output
    assert (result["status"], result["reason"]) == (
        "error",
        "the runtime failed; its log has the details",
    )
    statuses = {name: each["status"] for name, each in result["results"].items()}
    assert statuses == {"web": "aborted", "next": "skipped"}
    assert envelope.error is not None
    assert envelope.error.code != "CANCELLED"


async def test_a_run_aborted_before_its_start_has_a_result() -> None:
    """`GET …/runs/{runId}`: the result of an ended run equals the one sent at its end."""
    gate = Gate()
    agents = [worker("scout", tools=("slow",))]
    limits = Limits(flow_runs=1)
    place = MemoryStorage(flows=flows_of(demo=steps(ONE)), limits=limits)
    model = ScriptedModel(lambda request: finish() if len(request.messages) > 1 else call("slow"))
    tools = [Act("slow", gate)]
    async with memory_runtime(model=model, agents=agents, tools=tools, place=place) as runtime:
        await runtime.start_flow(NewRun(command="demo"), task_id=TaskId("task_2"))
        await gate.reached()
        await runtime.start_flow(NewRun(command="demo", task="t"), task_id=RUN)
        await runtime.requests.cancel(RUN)
        reply = await runtime.requests.wait(RUN)
        gate.open()
    assert reply is not None
    assert reply.status is TaskStatus.CANCELLED
    assert reply.envelope is not None
    result = reply.envelope.output
    assert (result["status"], result["reason"]) == ("aborted", "aborted by local")
    assert (result["task"], result["stepCount"], result["results"]) == ("t", 0, {})


class Unreadable(MemoryLog):
    """A log whose runs keep texts that a later penstock does not read any more."""

    is_later = False

    async def read(self, log_id: LogId, **part: Any) -> Sequence[Record]:
        records = await super().read(log_id, **part)
        return [_unread(each) for each in records] if self.is_later else records


def _unread(record: Record) -> Record:
    event = record.event
    if not isinstance(event, FlowStarted):
        return record
    return replace(record, event=replace(event, texts={event.file: "steps: ["}))


@pytest.mark.parametrize("expected", ["an answer", "an end"])
async def test_a_run_with_an_unreadable_stored_flow_ends(expected: str) -> None:
    """A later version may parse flows differently; every run can still be ended."""
    clock = SystemClock()
    log = Unreadable(clock)
    place = MemoryStorage(clock=clock, log=log, flows=flows_of(demo=steps(ASKS)))
    async with memory_runtime(
        model=ScriptedModel(by_task({})), agents=WORKERS, place=place
    ) as runtime:
        await run_in(runtime)
    log.is_later = True
    async with memory_runtime(agents=WORKERS, place=place) as runtime:
        (asked,) = await runtime.parts.storage.projections.open_questions(LogId(RUN))
        if expected == "an end":
            await runtime.requests.cancel(RUN)
        else:
            await runtime.requests.answer(asked.question.question_id, {"value": "Yes"})
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.error is not None
    assert reply.envelope is not None
    result, status = reply.envelope.output, "aborted" if expected == "an end" else "error"
    assert (result["runId"], result["status"], result["task"]) == (RUN, status, "the task")


NESTED = "  - {id: ref, path: sub.yaml}\n  - {id: tell, agent: scout, task: tell}"
INSIDE = """
  - {id: one, agent: scout, task: one}
  - {id: ask, question: "Go?", branches: {Go: two}}
  - {id: two, agent: scout, task: two}
"""


async def test_nested_visits_count_once_however_often_the_run_is_resumed() -> None:
    """P12: More than `limits.flow_visits` step starts in a run (sub-flows included): hard."""
    flows = flows_of(demo=steps(NESTED), sub=steps(INSIDE))
    for most, status in ((5, "success"), (4, "error")):
        place = MemoryStorage(flows=flows, limits=Limits(flow_visits=most))
        model = ScriptedModel(by_task({}))
        async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
            await run_in(runtime)
        async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
            reply = await see_through(runtime, {"value": "Go"}, task="t")
        assert reply.envelope is not None
        assert reply.envelope.output["status"] == status
        assert reply.envelope.output["stepCount"] == 5


@pytest.mark.parametrize("writes", range(1, 6))
async def test_the_visit_over_the_limit_is_the_same_after_a_crash(writes: int) -> None:
    """17: "every resumed run ends as the uninterrupted one", also in `visit_limit`."""
    log = DyingLog(clock := FakeClock(), writes=writes, before=False)
    sub = steps(f"{ONE}\n  - {{id: next, agent: scout, blockedBy: [web]}}")
    flows = flows_of(demo=steps("  - {id: ref, path: sub.yaml}"), sub=sub)
    limits = Limits(flow_visits=2, shutdown_seconds=0)
    place, reply = MemoryStorage(flows=flows, clock=clock, log=log, limits=limits), None
    model = ScriptedModel(by_task({}))
    while reply is None:
        async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
            reply = await live(runtime, log, see_through(runtime, {}, task="t"))
        log.revive()
        clock.advance(limits.lease_seconds + 1)
    assert reply.envelope is not None
    results = reply.envelope.output["results"]
    assert (results["web"]["status"], results["next"]["status"]) == ("complete", "error")


async def test_a_run_keeps_the_configuration_that_it_started_with() -> None:
    """A run keeps these texts to its end, whatever is written meanwhile."""
    text = ASKS.replace("task: end", 'task: "${{config.k}}"')
    place = MemoryStorage(flows=flows_of(demo=steps(text)))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        assert runtime.parts.flows.work is not None
        runtime.parts.flows.work.settings = FlowSettings(config={"k": "as it was"})
        await run_in(runtime)
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        reply = await see_through(runtime, {"value": "Yes"}, task="t")
    assert reply.envelope is not None
    assert reply.envelope.output["results"]["end"]["summary"] == "as it was done"


async def test_an_aborted_run_shows_its_nested_results() -> None:
    place = MemoryStorage(flows=flows_of(demo=steps(NESTED), sub=steps(INSIDE)))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
        await runtime.requests.cancel(RUN)
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    result = reply.envelope.output
    assert {name: each["status"] for name, each in result["results"].items()} == {
        "ref": "aborted",
        "tell": "skipped",
        "ref.one": "complete",
        "one": "complete",
        "ref.ask": "aborted",
        "ask": "aborted",
        "ref.two": "skipped",
        "two": "skipped",
    }


def test_the_budget_of_a_run_has_its_own_limits() -> None:
    usual = allowance_of(Limits())
    assert (usual.model_calls, usual.tool_calls, usual.tokens) == (10_000, 100_000, None)
    assert usual.seconds == math.inf
    own = allowance_of(Limits(flow_model_calls=3, flow_tool_calls=4, flow_tokens=5, flow_seconds=6))
    assert own == Allowance(model_calls=3, tool_calls=4, tokens=5, seconds=6)


async def test_waits_between_attempts_do_not_count_as_working_time() -> None:
    """`limits.flow_seconds`: waits for people, and between tries of a step, do not count."""
    clock = FakeClock()
    text = "  - {id: web, agent: scout, task: web, retry: {attempts: 2, delay: 61}}"
    asks = ASKS.partition("\n")[2].partition("\n")[2]
    flows = flows_of(demo=steps(f"{text}\n{asks}"))
    place = MemoryStorage(flows=flows, clock=clock, limits=Limits(flow_seconds=60))
    left = [finish("no", status="error")] * 2
    model = ScriptedModel(by_task({"web": lambda _: left.pop() if left else finish("web")}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        run = asyncio.create_task(run_in(runtime))
        while not run.done():
            await clock.elapse(61)
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        reply = await see_through(runtime, {"value": "Yes"}, task="t")
    assert reply.envelope is not None
    assert reply.envelope.ok, reply.envelope
