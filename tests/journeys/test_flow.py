"""Flows, run whole: a scripted model, the log in memory."""

from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.builtins.ask_user import AskUser
from penstock.chat.message import NewRun
from penstock.core.envelope import Status
from penstock.core.events import QuestionAsked, Record
from penstock.core.flow_events import StepSettled
from penstock.core.ids import LogId
from penstock.core.question import QuestionRecord
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import MemoryPlace, memory_runtime
from penstock.tools.tool import Tool
from tests.kit.flows import (
    RUN,
    WORKERS,
    by_task,
    finish,
    flows_of,
    run_flow,
    run_in,
    steps,
    visits,
    worker,
)
from tests.kit.tools import Act, Gate

W1 = """
  - {id: web, agent: scout, task: look at the web}
  - {id: code, agent: scout, task: look at the code}
  - id: report
    agent: writer
    blockedBy: [web, code]
    task: "${{result.web.summary}}, ${{result.code.summary}}"
"""


async def test_two_steps_in_parallel_and_their_join() -> None:
    """W1: two in parallel, one join."""
    envelope = await run_flow(W1, ScriptedModel(by_task({})))
    assert envelope.ok
    result = envelope.output
    assert (result["status"], result["stepCount"]) == ("success", 3)
    wanted = "look at the web done, look at the code done"
    assert result["results"]["report"]["summary"] == f"{wanted} done"
    assert result["lastResult"]["summary"] == f"{wanted} done"


async def test_an_agent_reads_its_own_task_and_nothing_else() -> None:
    """The session sees nothing of the main session or of other steps."""
    model = ScriptedModel(by_task({}))
    await run_flow(W1, model)
    assert [len(request.messages) for request in model.requests] == [1, 1, 1]
    assert all("You are" in request.system for request in model.requests)
    assert [tool.name for tool in model.requests[0].tools] == ["finish"]


async def test_who_calls_nothing_is_reminded_and_then_fails() -> None:
    """T22: two reminders; three replies without a tool call."""
    model = ScriptedModel([say("Hm."), say("Done!"), say("Really.")])
    envelope = await run_flow("  - {id: web, agent: scout}", model)
    assert (envelope.status, envelope.output["status"]) == (Status.FAILED, "error")
    assert envelope.output["results"]["web"]["status"] == "error"
    assert len(model.requests) == 3
    assert "Your last act must be a call of finish" in model.requests[1].messages[-1].content


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


async def test_a_loop_goes_round_as_often_as_it_may() -> None:
    """W6: drafts see 1, 2, 3; the judge 1, 2; at again/3 nobody is asked."""
    answers = {f"Pass {n}": finish("again", branch="loop") for n in (1, 2)}
    model = ScriptedModel(by_task(answers))
    envelope = await run_flow(W6, model)
    assert envelope.ok
    assert visits(envelope) == {"gather": 1, "draft": 3, "review": 3, "again": 3, "publish": 1}
    assert len(model.requests) == 10
    assert envelope.output["warnings"] == ["${{result.review.summary}} names nothing"]


FORK = """
  - id: choose
    question: "How deep?"
    options: [Quick, Deep]
    branches: {Quick: quick, Deep: deep}
    agent: judge
  - {id: quick, agent: scout, task: quick}
  - {id: deep, agent: scout, task: deep}
  - id: report
    agent: writer
    blockedBy: [quick, deep]
    task: "${{result.quick.summary}}${{result.deep.summary}}, ${{fork.choose.answer}}"
"""


@pytest.mark.parametrize(
    ("answer", "ran", "said"),
    [
        ({"value": "Quick"}, "quick", "quick done, Quick"),
        ({"text": "2"}, "deep", "deep done, Deep"),
        ({"decide": True}, "deep", "deep done, Deep"),
    ],
)
async def test_a_fork_asks_a_person_and_goes_on_where_they_say(
    answer: dict[str, Any], ran: str, said: str
) -> None:
    """W4: branches and a join in one segment."""
    choose = "How deep?"
    model = ScriptedModel(by_task({choose: finish("since it matters", branch="Deep")}))
    place = MemoryPlace(flows=flows_of(demo=steps(FORK)))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        envelope = await run_in(runtime)
        assert envelope.status is Status.SUSPENDED
        (asked,) = await runtime.parts.projections.open_questions(LogId(RUN))
        assert [each.value for each in asked.question.options] == ["Quick", "Deep"]
        await runtime.answer(asked.question.question_id, answer)
        reply = await runtime.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    results = reply.envelope.output["results"]
    assert results["report"]["summary"] == f"{said} done"
    assert [name for name in ("quick", "deep") if results[name]["status"] == "complete"] == [ran]
    assert "chosen at the fork choose" in model.requests[-2].system


async def test_in_an_autonomous_run_an_agent_decides() -> None:
    """Autonomous: the decider runs; `.notes` is its summary."""
    model = ScriptedModel(by_task({"How deep?": finish("because", branch="Quick")}))
    envelope = await run_flow(FORK, model, autonomous=True)
    assert envelope.ok
    assert envelope.output["forks"] == {"choose": {"answer": "Quick", "notes": "because"}}
    assert "Nobody can be asked in this run" in model.requests[0].system


async def test_a_person_who_cancels_at_a_fork_ends_the_run() -> None:
    """The run ends with status `aborted`, reason `cancelled at fork ID`."""
    place = MemoryPlace(flows=flows_of(demo=steps(FORK)))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
        (asked,) = await runtime.parts.projections.open_questions(LogId(RUN))
        await runtime.answer(asked.question.question_id, {"cancel": True})
        reply = await runtime.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    result = reply.envelope.output
    assert (result["status"], result["reason"]) == ("aborted", "cancelled at fork choose")


async def test_calls_before_finish_run_first_and_those_after_it_are_refused() -> None:
    """N6: calls before finish run and settle first; calls after it are refused."""
    look = Act("look")
    said = call("look", n=1) + finish("ok") + call("look", n=2)
    agents = [worker("scout", tools=("look",))]
    envelope = await run_flow(
        "  - {id: web, agent: scout}", ScriptedModel([said]), tools=[look], agents=agents
    )
    assert envelope.ok
    assert look.runs == [{"n": 1}]


async def test_a_tool_that_was_not_declared_is_refused_and_the_agent_goes_on() -> None:
    """G5: the session goes on."""
    look = Act("look")
    model = ScriptedModel([call("look"), finish("ok")])
    envelope = await run_flow("  - {id: web, agent: scout}", model, tools=[look])
    assert envelope.ok
    assert look.runs == []
    assert '\\"look\\" is not declared by agent' in model.requests[1].messages[-1].content


GATE = """
  - {id: gate, agent: judge, task: t, branches: {a: end, b: end}}
  - {id: end, agent: scout}
"""


@pytest.mark.parametrize(
    ("replies", "status", "source"),
    [
        ([finish(status="done", branch="a")] * 3, "error", "3 calls of finish were not valid"),
        ([finish(branch="x")] * 3, "error", "named a branch that does not exist"),
    ],
    ids=["not valid", "unknown branch"],
)
async def test_finish_is_refused_twice_and_then_the_step_fails(
    replies: list[Any], status: str, source: str
) -> None:
    """N4: the agent may try again twice."""
    envelope = await run_flow(GATE, ScriptedModel(replies))
    assert envelope.output["status"] == status
    assert source in envelope.output["reason"]


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
async def test_a_step_that_fails_is_tried_again_before_on_error_counts(
    fails: int, ran: dict[str, int]
) -> None:
    no = finish("no", status="error")
    left = [no] * fails
    answers = by_task({"web": lambda _: left.pop() if left else finish("web")})
    envelope = await run_flow(RETRIED, ScriptedModel(answers))
    assert envelope.ok
    assert visits(envelope) == ran


SUBS = {
    "demo": """
  - {id: unit, path: unit.yaml}
  - {id: load, path: "parts/*.yaml", inputs: {n: "${{result.unit.sum.summary}}"}}
  - id: report
    agent: writer
    task: "${{result.unit.sum.summary}} ${{result.load.2.sum.summary}} ${{result.own.summary}}"
""",
    "unit": """
  - {id: sum, agent: scout, task: unit sum}
  - {id: own, agent: scout, task: own}
""",
    "parts_a": "  - {id: sum, agent: scout, task: 'a ${{flow.input.n}}'}",
    "parts_b": "  - {id: sum, agent: scout, task: 'b ${{flow.input.n}}'}",
}
TAKES_N = "inputs: {n: {type: string, required: true}}\n"


async def test_flows_in_flows_bring_their_results() -> None:
    """REF.STEP, REF.N.STEP of a glob, and STEP where no other has the id (section 7.7)."""
    texts = {name: steps(text) for name, text in SUBS.items()}
    texts |= {name: TAKES_N + texts[name] for name in ("parts_a", "parts_b")}
    place = MemoryPlace(flows=flows_of(**texts))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        envelope = await run_in(runtime)
    assert envelope.ok, envelope
    results = envelope.output["results"]
    assert results["report"]["summary"] == "unit sum done b unit sum done done own done done"
    assert {"unit", "unit.sum", "load", "load.sum", "load.1.sum", "load.2.sum"} <= set(results)
    assert "sum" not in results
    assert results["load"]["status"] == "complete"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../../x.yaml", "leads out of the project"),
        ("none.yaml", 'no flow matches "none.yaml"'),
        ("parts/a.yaml", "/inputs/n: is required"),
        ("demo.yaml", "more than 8 deep"),
    ],
)
async def test_a_reference_that_leads_nowhere_fails_its_step(path: str, reason: str) -> None:
    texts = {"demo": f"  - {{id: sub, path: {path}}}", "parts_a": SUBS["parts_a"]}
    texts = {name: steps(text) for name, text in texts.items()}
    texts["parts_a"] = TAKES_N + texts["parts_a"]
    place = MemoryPlace(flows=flows_of(**texts))
    async with memory_runtime(model=ScriptedModel([]), agents=WORKERS, place=place) as runtime:
        envelope = await run_in(runtime)
    assert envelope.output["status"] == "error"
    assert reason in envelope.output["reason"]


BESIDE = """
  - {id: asks, agent: asker, task: asks}
  - {id: slow, agent: slower, task: slow}
"""


async def test_an_answer_is_taken_while_other_steps_are_at_work() -> None:
    """P4: a step that waits for a person gives its place back; its answer wakes it."""
    gate = Gate()
    slow, agents = (
        Act("slow", gate),
        [
            worker("asker"),
            worker("slower", tools=("slow",)),
        ],
    )
    asked = call("ask_user", question="Now?", type="confirm")
    answers = by_task(
        {
            "asks": lambda request: finish("asked") if len(request.messages) > 1 else asked,
            "slow": lambda request: finish("slow") if len(request.messages) > 1 else call("slow"),
        }
    )
    place = MemoryPlace(flows=flows_of(demo=steps(BESIDE)))
    model = ScriptedModel(answers)
    tools: list[Tool] = [slow, AskUser()]
    async with memory_runtime(model=model, agents=agents, tools=tools, place=place) as runtime:
        await runtime.start_flow(NewRun(command="demo"), task_id=RUN)
        await gate.reached()
        waiting = await first_question(runtime)
        await runtime.answer(waiting.question.question_id, {"value": True})
        await until_settled(runtime, "asks")
        gate.open()
        reply = await runtime.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    assert reply.envelope.ok


async def first_question(runtime: Runtime) -> QuestionRecord:
    """Return the question of the run, as soon as it is asked."""
    async for item in runtime.follow(LogId(RUN)):
        if isinstance(item, Record) and isinstance(item.event, QuestionAsked):
            (asked,) = await runtime.parts.projections.open_questions(LogId(RUN))
            return asked
    raise AssertionError("the run ended without a question")


async def until_settled(runtime: Runtime, step_id: str) -> None:
    """Return when a step has settled."""
    async for item in runtime.follow(LogId(RUN)):
        if isinstance(item, Record) and isinstance(item.event, StepSettled):
            assert item.event.step_id == step_id
            return
