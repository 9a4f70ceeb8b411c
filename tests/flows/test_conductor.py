"""A run at work: what starts together, what goes round, what is tried again."""

import pytest

from penstock.app.runtime import Runtime
from penstock.builtins.ask_user import AskUser
from penstock.chat.message import NewRun
from penstock.core.events import QuestionAsked, Record
from penstock.core.flow_events import StepSettled
from penstock.core.ids import LogId
from penstock.core.question import QuestionRecord
from penstock.models.scripted import ScriptedModel, call
from penstock.testing.runtime import MemoryPlace, memory_runtime
from penstock.tools.tool import Tool
from tests.kit.flows import (
    RUN,
    W1,
    by_task,
    finish,
    flows_of,
    run_flow,
    steps,
    visits,
    worker,
)
from tests.kit.tools import Act, Gate


async def test_two_steps_in_parallel_and_their_join() -> None:
    """W1: two in parallel, one join."""
    envelope = await run_flow(W1, ScriptedModel(by_task({})))
    assert envelope.ok
    result = envelope.output
    assert (result["status"], result["stepCount"]) == ("success", 3)
    wanted = "look at the web done, look at the code done"
    assert result["results"]["report"]["summary"] == f"{wanted} done"
    assert result["lastResult"]["summary"] == f"{wanted} done"


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
