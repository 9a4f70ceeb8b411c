"""Steps by their kind: forks that ask, decide and cancel, and what a condition finds."""

from typing import Any

import pytest

from penstock.core.envelope import Status
from penstock.core.events.flow_events import Output
from penstock.core.ids import LogId
from penstock.models.scripted import ScriptedModel
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.flows import (
    RUN,
    WORKERS,
    by_task,
    finish,
    flows_of,
    run_flow,
    run_in,
    steps,
    worker,
)

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
        ({"text": "Deep"}, "deep", "deep done, Deep"),
        ({"decide": True}, "deep", "deep done, Deep"),
    ],
)
async def test_a_fork_asks_a_person_and_follows_the_answer(
    answer: dict[str, Any], ran: str, said: str
) -> None:
    """W4: branches and a join in one segment."""
    choose = "How deep?"
    model = ScriptedModel(by_task({choose: finish("since it matters", branch="Deep")}))
    place = MemoryStorage(flows=flows_of(demo=steps(FORK)))
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
    place = MemoryStorage(flows=flows_of(demo=steps(FORK)))
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


CONDITION = """
  - {id: web, agent: scout, task: web}
  - {id: found, check: CHECK, present: yes-step, absent: no-step}
  - {id: yes-step, agent: scout, task: y, end: true}
  - {id: no-step, agent: scout, task: n}
"""


@pytest.mark.parametrize(
    ("check", "ran"),
    [
        ("web", "no-step"),
        ("web.summary", "yes-step"),
        ("web.branch", "no-step"),
        ("web.nothing", "yes-step"),
        ("nobody.summary", "no-step"),
    ],
)
async def test_a_condition_looks_at_a_field_of_the_last_result(check: str, ran: str) -> None:
    """7.4: another field name gives the whole output text."""
    text = CONDITION.replace("CHECK", check)
    envelope = await run_flow(text, ScriptedModel(by_task({})))
    results = envelope.output["results"]
    done = [name for name in ("yes-step", "no-step") if results[name]["status"] == "complete"]
    assert done == [ran]


async def test_a_condition_reports_its_result_also_if_both_branches_are_equal() -> None:
    text = CONDITION.replace("CHECK", "web.branch").replace("yes-step", "no-step", 1)
    envelope = await run_flow(text, ScriptedModel(by_task({})))
    assert envelope.output["results"]["found"]["branch"] == "absent"


async def test_a_persons_own_words_go_to_the_decider() -> None:
    """7.3: free text: the decider runs with question, options and the text."""
    text = FORK.replace("agent: judge", "agent: judge\n    allowCustom: true")
    model = ScriptedModel(by_task({"How deep?": finish("fits", branch="Quick")}))
    place = MemoryStorage(flows=flows_of(demo=steps(text)))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
        (asked,) = await runtime.parts.projections.open_questions(LogId(RUN))
        await runtime.answer(asked.question.question_id, {"text": "not too deep"})
        reply = await runtime.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    assert reply.envelope.output["forks"]["choose"]["answer"] == "not too deep"
    assert reply.envelope.output["results"]["quick"]["status"] == "complete"
    assert "not too deep" in model.requests[0].messages[0].content


async def test_a_deciders_outputs_are_in_the_result_with_its_choice() -> None:
    """§11: `branch` "on … deciders of forks", and "NAME: one per declared output"."""
    judge = worker("judge", outputs=(Output(name="why"),))
    model = ScriptedModel(by_task({"How deep?": finish("so", branch="Deep", why="it matters")}))
    text = FORK.replace("fork.choose.answer", "result.choose.why")
    agents = [judge, *(each for each in WORKERS if each.name != "judge")]
    envelope = await run_flow(text, model, agents=agents, autonomous=True)
    (offered,) = [each for each in model.requests[0].tools if each.name == "finish"]
    assert {"branch", "why"} <= offered.parameters["properties"].keys()
    assert envelope.output["results"]["choose"]["outputs"] == {"why": "it matters"}
    assert envelope.output["warnings"] == []
    assert model.requests[-1].messages[0].content == "Task: deep done, it matters"
