"""The flow runner: concurrent steps, loops, retries."""

import asyncio

import pytest
from anyio.lowlevel import checkpoint

from penstock.app.runtime import Runtime
from penstock.builtins.ask_user import AskUser
from penstock.chat.requests import NewRun
from penstock.core.events.events import QuestionAsked, Record
from penstock.core.events.flow_events import StepSettled, StepStarted
from penstock.core.ids import LogId
from penstock.core.messages import AssistantMessage
from penstock.core.task import QuestionRecord, TaskStatus
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.tool import Tool
from tests.kit.flows import (
    RUN,
    W1,
    WORKERS,
    by_task,
    finish,
    flows_of,
    run_flow,
    run_in,
    see_through,
    steps,
    told_in,
    visits,
    worker,
)
from tests.kit.tools import Act, Gate


async def test_two_steps_run_in_parallel_and_a_third_waits_for_both() -> None:
    """W1: two in parallel, one join."""
    envelope = await run_flow(W1, ScriptedModel(by_task({})))
    assert envelope.ok
    result = envelope.output
    assert (result["status"], result["stepCount"]) == ("success", 3)
    expected = "look at the web done, look at the code done"
    assert result["results"]["report"]["summary"] == f"{expected} done"
    assert result["lastResult"]["summary"] == f"{expected} done"


W9 = """
  - {id: make, agent: writer, task: make}
  - id: gate
    agent: judge
    task: "Try ${{loop.gate.iteration}} of ${{loop.gate.max}}"
    branches: {redo: make, good: publish}
    max_iterations: 1
  - {id: salvage, agent: scout, task: salvage}
  - {id: publish, agent: writer, blockedBy: [salvage], task: publish}
"""


@pytest.mark.parametrize(
    ("branch", "ran"),
    [
        ("redo", {"make": 2, "gate": 2, "salvage": 1, "publish": 1}),
        ("good", {"make": 1, "gate": 1, "salvage": 0, "publish": 1}),
    ],
)
async def test_a_decision_routes_by_the_branch_of_finish(branch: str, ran: dict[str, int]) -> None:
    """T26: the agent's branch choice is used by the engine to route to the next step (W9)."""
    answers = {f"Try {n} of 1": finish("ok", branch=branch) for n in (1, 2)}
    envelope = await run_flow(W9, ScriptedModel(by_task(answers)))
    assert envelope.ok
    assert visits(envelope) == ran


W6 = """
  - {id: gather, agent: scout, task: gather}
  - id: draft
    agent: writer
    blockedBy: [gather]
    task: "${{result.gather.summary}} <${{result.review.summary}}>"
  - {id: review, agent: judge, blockedBy: [draft], task: "review ${{result.draft.summary}}"}
  - id: again
    agent: judge
    task: "Pass ${{loop.again.iteration}}"
    loop_target: draft
    exit_target: publish
    max_iterations: 2
  - {id: publish, agent: writer, task: publish}
"""


async def test_a_loop_repeats_up_to_its_limit() -> None:
    """W6: drafts see 1, 2, 3; the judge 1, 2; no one is asked at again/3."""
    answers = {f"Pass {n}": finish("again", branch="loop") for n in (1, 2)}
    model = ScriptedModel(by_task(answers))
    envelope = await run_flow(W6, model)
    assert envelope.ok
    assert visits(envelope) == {"gather": 1, "draft": 3, "review": 3, "again": 3, "publish": 1}
    assert len(model.requests) == 10
    assert envelope.output["warnings"] == ["${{result.review.summary}} names nothing"]


RETRIED = """
  - {id: web, agent: scout, task: web, retry: {attempts: 2, delay: 0}, on_error: other}
  - {id: stop, agent: scout, task: stop, end: true}
  - {id: other, agent: writer, task: other}
"""


@pytest.mark.parametrize(
    ("fails", "ran"),
    [
        (0, {"web": 1, "stop": 1, "other": 0}),
        (2, {"web": 3, "stop": 1, "other": 0}),
        (3, {"web": 3, "stop": 1, "other": 1}),
    ],
)
async def test_a_failed_step_is_retried_before_on_error_applies(
    fails: int, ran: dict[str, int]
) -> None:
    no = finish("no", status="error")
    left = [no] * fails
    answers = by_task({"web": lambda _: left.pop() if left else finish("web")})
    envelope = await run_flow(RETRIED, ScriptedModel(answers))
    assert envelope.ok
    assert visits(envelope) == ran


ASK = call("ask_user", question="Now?", type="confirm")
BESIDE = """
  - {id: asks, agent: asker, task: asks}
  - {id: slow, agent: slower, task: slow}
"""


async def test_an_answer_is_accepted_while_other_steps_work() -> None:
    """P4: a step that waits for a person gives its place back; its answer wakes it."""
    gate = Gate()
    slow = Act("slow", gate)
    agents = [worker("asker"), worker("slower", tools=("slow",))]
    answers = by_task(
        {
            "asks": lambda request: finish("asked") if len(request.messages) > 1 else ASK,
            "slow": lambda request: finish("slow") if len(request.messages) > 1 else call("slow"),
        }
    )
    place = MemoryStorage(flows=flows_of(demo=steps(BESIDE)))
    model = ScriptedModel(answers)
    tools: list[Tool] = [slow, AskUser()]
    async with memory_runtime(model=model, agents=agents, tools=tools, place=place) as runtime:
        await runtime.start_flow(NewRun(command="demo"), task_id=RUN)
        await gate.reached()
        waiting = await first_question(runtime)
        await runtime.requests.answer(waiting.question.question_id, {"value": True})
        await until_settled(runtime, "asks")
        gate.open()
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    assert reply.envelope.ok


async def first_question(runtime: Runtime) -> QuestionRecord:
    """Return the question of the run, as soon as it is asked."""
    async for item in runtime.requests.follow(LogId(RUN)):
        if isinstance(item, Record) and isinstance(item.event, QuestionAsked):
            (asked,) = await runtime.parts.storage.projections.open_questions(LogId(RUN))
            return asked
    raise AssertionError("the run ended without a question")


async def until_settled(runtime: Runtime, step_id: str) -> None:
    """Return when a step has settled."""
    async for item in runtime.requests.follow(LogId(RUN)):
        if isinstance(item, Record) and isinstance(item.event, StepSettled):
            assert item.event.step_id == step_id
            return


RETRY_BESIDE = """
  - {id: a, agent: scout, task: a, retry: {attempts: 1, delay: 3}}
  - {id: b, agent: scout, task: b}
  - {id: c, agent: scout, task: c}
"""


async def started(runtime: Runtime) -> list[tuple[str, int]]:
    """Return the visits that were started, in order."""
    events = [each.event for each in await runtime.parts.storage.log.read(LogId(RUN))]
    return [(each.step_id, each.visit) for each in events if isinstance(each, StepStarted)]


async def test_a_step_between_attempts_frees_its_place_and_waits_for_one_to_continue() -> None:
    """P4: a step that waits … for its next try, gives its place back; other ready steps start."""
    clock, gate = FakeClock(), Gate()
    agents = [*WORKERS, worker("slower", tools=("slow",))]
    text = RETRY_BESIDE.replace("{id: b, agent: scout", "{id: b, agent: slower")
    left = [finish("no", status="error")]
    slow = {"b": lambda request: finish("b") if len(request.messages) > 1 else call("slow")}
    answers = by_task({"a": lambda _: left.pop() if left else finish("a"), **slow})
    flows = flows_of(demo=f"max_concurrent: 1\n{steps(text)}")
    place = MemoryStorage(flows=flows, clock=clock)
    tools: list[Tool] = [Act("slow", gate)]
    model = ScriptedModel(answers)
    async with memory_runtime(model=model, agents=agents, tools=tools, place=place) as runtime:
        run = asyncio.create_task(run_in(runtime))
        await gate.reached()
        await clock.elapse(10)
        assert await started(runtime) == [("a", 1), ("b", 1)]
        gate.open()
        while not run.done():
            await clock.elapse(1)
        assert run.result().ok
        assert await started(runtime) == [("a", 1), ("b", 1), ("a", 2), ("c", 1)]


LOOPED = """
  - {id: make, agent: scout, task: make}
  - {id: again, agent: judge, task: again, loop_target: make, exit_target: end, max_iterations: 1}
  - {id: end, agent: scout, task: end}
"""
LOOP_TASK = "again"


async def test_readers_see_an_iteration_before_the_judge_is_asked() -> None:
    """7.6: *v* ≤ max_iterations → event `flow_loop_iteration`, the agent is asked."""
    model = ScriptedModel(by_task({LOOP_TASK: finish("no", status="blocked")}))
    place = MemoryStorage(flows=flows_of(demo=steps(LOOPED)))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        envelope = await run_in(runtime)
        (event,) = await told_in(runtime, "flow_loop_iteration")
        records = await runtime.parts.storage.log.read(LogId(RUN))
    assert envelope.output["status"] == "error"
    assert event == {
        "stepId": "again",
        "iteration": 1,
        "maxIterations": 1,
        "loopTarget": "make",
        "forced": False,
    }
    frame = f"{RUN}/again/1"
    kinds = [type(each.event).__name__ for each in records if each.path == frame]
    assert kinds[:3] == ["StepStarted", "FlowNotified", "AgentStarted"]


BACK = """
  - {id: make, agent: scout, task: make}
  - {id: gate, agent: judge, task: gate, branches: {redo: make, good: end}, max_iterations: 1}
  - {id: end, agent: scout, task: end}
"""


async def test_a_backward_jump_names_its_target_even_if_it_is_not_taken() -> None:
    """7.5: taken less than M times: event `flow_loop_iteration`; otherwise `forced: true`."""
    model = ScriptedModel(by_task({"gate": finish("more", branch="redo")}))
    place = MemoryStorage(flows=flows_of(demo=steps(BACK)))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
        events = await told_in(runtime, "flow_loop_iteration")
    assert [(each["iteration"], each["loopTarget"], each["forced"]) for each in events] == [
        (1, "make", False),
        (2, "make", True),
    ]


SEVERAL = """
  - id: which
    question: "Which?"
    options: [Load, Unit]
    branches: {Unit: unit, Load: load}
    multiSelect: true
  - {id: unit, path: unit.yaml, on_complete: report}
  - {id: load, path: load.yaml, on_complete: report}
  - {id: report, agent: writer, task: report}
"""
SUM = "  - {id: sum, agent: scout, task: %s}"


async def test_several_answers_lead_to_their_targets_in_the_order_of_the_file() -> None:
    """W10: `jump unit, load`; results unit, unit.sum, load, load.sum, no flat sum."""
    flows = flows_of(demo=steps(SEVERAL), unit=steps(SUM % "u"), load=steps(SUM % "l"))
    model = ScriptedModel(by_task({}))
    place = MemoryStorage(flows=flows)
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        reply = await see_through(runtime, {"value": ["Load", "Unit"]}, task="t")
        jumps = [(each["to"], each["why"]) for each in await told_in(runtime, "flow_jump")]
    assert jumps == [(["unit", "load"], "branch"), (["report"], "on_complete")]
    assert reply.envelope is not None
    results = reply.envelope.output["results"]
    assert set(results) == {"which", "unit", "unit.sum", "load", "load.sum", "report"}


async def test_a_reference_that_did_not_run_keeps_a_shared_id_from_being_flat() -> None:
    """7.7: flat, only if no step of the parent and no other flow-ref of it has that id."""
    flows = flows_of(demo=steps(SEVERAL), unit=steps(SUM % "u"), load=steps(SUM % "l"))
    model, place = ScriptedModel(by_task({})), MemoryStorage(flows=flows)
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        reply = await see_through(runtime, {"value": ["Unit"]}, task="t")
    assert reply.envelope is not None
    results = reply.envelope.output["results"]
    assert "unit.sum" in results
    assert "sum" not in results


CAUGHT = """
  - {id: ref, path: sub.yaml}
  - {id: tell, agent: scout, task: "${{result.ref.status}}"}
"""
CATCHES = """
  - {id: odd, agent: scout, task: odd, on_error: pick}
  - {id: pick, question: "Go?", branches: {Go: pick}, max_iterations: 1}
"""


async def test_the_result_of_a_reference_has_the_status_of_the_reference() -> None:
    """7.7: `REF`: the last agent result of the (last) sub-flow; `status` of the ref itself."""
    model = ScriptedModel(by_task({"odd": finish("no", status="blocked")}))
    place = MemoryStorage(flows=flows_of(demo=steps(CAUGHT), sub=steps(CATCHES)))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        reply = await see_through(runtime, {"value": "Go"}, task="t")
    assert reply.envelope is not None
    result = reply.envelope.output
    assert result["results"]["ref"]["status"] == "complete"
    assert result["results"]["tell"]["summary"] == "complete done"
    assert result["results"]["ref.odd"]["status"] == "blocked"
    assert (result["results"]["ref.pick"]["visits"], result["results"]["pick"]["visits"]) == (2, 2)
    assert result["forks"] == {"ref.pick": {"answer": "Go"}}
    assert result["stepCount"] == 5


async def test_a_cancelled_nested_fork_aborts_the_reference() -> None:
    sub = '  - {id: pick, question: "Go?", branches: {Go: last}}\n  - {id: last, agent: scout}'
    place = MemoryStorage(flows=flows_of(demo=steps(CAUGHT), sub=steps(sub)))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        reply = await see_through(runtime, {"cancel": True}, task="t")
    assert reply.envelope is not None
    result = reply.envelope.output
    assert (result["status"], result["reason"]) == ("aborted", "cancelled at fork pick")
    assert result["results"]["ref"]["status"] == "aborted"
    assert result["results"]["ref"]["visits"] == 1


AFTER = """
  - {id: ref, path: sub.yaml, on_error: pick}
  - {id: pick, question: "Go on?", branches: {Yes: last}}
  - {id: last, agent: scout, task: last}
"""


async def test_questions_of_an_aborted_nested_step_are_withdrawn() -> None:
    """P11: running steps are aborted; their open questions are withdrawn."""
    gate = Gate()
    agents = [*WORKERS, worker("asker"), worker("slower", tools=("slow",))]
    no, go = finish("no", status="error"), call("slow")
    slow = {"slow": lambda request: no if len(request.messages) > 1 else go}
    place = MemoryStorage(flows=flows_of(demo=steps(AFTER), sub=steps(BESIDE)))
    tools: list[Tool] = [Act("slow", gate), AskUser()]
    model = ScriptedModel(by_task({"asks": ASK, **slow}))
    async with memory_runtime(model=model, agents=agents, tools=tools, place=place) as runtime:
        await runtime.start_flow(NewRun(command="demo"), task_id=RUN)
        await gate.reached()
        await first_question(runtime)
        gate.open()
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert [each.question.text for each in reply.questions] == ["Go on?"]


THREE = "\n".join(f"  - {{id: s{n}, agent: asker, task: s{n}}}" for n in range(3))


async def test_answered_steps_continue_up_to_the_concurrency_limit() -> None:
    """`max_concurrent`: "agent steps of a segment at once; waiting ones do not count"."""
    gate = Gate()
    slow = Act("slow", gate)

    def answer(request: ModelRequest) -> ScriptedReply:
        turn = sum(isinstance(each, AssistantMessage) for each in request.messages)
        return (ASK, call("slow"), finish("done"))[turn]

    place = MemoryStorage(flows=flows_of(demo=f"max_concurrent: 1\n{steps(THREE)}"))
    agents = [worker("asker", tools=("slow",))]
    tools: list[Tool] = [slow, AskUser()]
    model = ScriptedModel(answer)
    async with memory_runtime(model=model, agents=agents, tools=tools, place=place) as runtime:
        await run_in(runtime)
        asked = await runtime.parts.storage.projections.open_questions(LogId(RUN))
        ids = [each.question.question_id for each in asked]
        await asyncio.gather(*(runtime.requests.answer(each, {"value": True}) for each in ids))
        await gate.reached()
        await checkpoint()
        assert len(slow.runs) == 1
        gate.open()
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.status is TaskStatus.SUCCEEDED
