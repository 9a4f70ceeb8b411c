"""The kind `fork`: it asks, lets an agent decide, and can end the run."""

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.core.envelope import Json, Status
from penstock.core.events.flow_events import Output
from penstock.core.ids import LogId
from penstock.flows.steps.fork import Fork, PersonChoice, choice_in, decider_task
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
    see_through,
    steps,
    told_in,
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
    ("answer", "ran", "message"),
    [
        ({"value": "Quick"}, "quick", "quick done, Quick"),
        ({"text": "Deep"}, "deep", "deep done, Deep"),
        ({"decide": True}, "deep", "deep done, Deep"),
    ],
)
async def test_a_fork_asks_a_person_and_follows_the_answer(
    answer: dict[str, Any], ran: str, message: str
) -> None:
    """W4: branches and a join in one segment."""
    choose = "How deep?"
    model = ScriptedModel(by_task({choose: finish("since it matters", branch="Deep")}))
    place = MemoryStorage(flows=flows_of(demo=steps(FORK)))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        envelope = await run_in(runtime)
        assert envelope.status is Status.SUSPENDED
        (asked,) = await runtime.parts.storage.projections.open_questions(LogId(RUN))
        assert [each.value for each in asked.question.options] == ["Quick", "Deep"]
        await runtime.requests.answer(asked.question.question_id, answer)
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    results = reply.envelope.output["results"]
    assert results["report"]["summary"] == f"{message} done"
    assert [name for name in ("quick", "deep") if results[name]["status"] == "complete"] == [ran]
    assert "chosen at the fork choose" in model.requests[-2].system


async def test_in_an_autonomous_run_an_agent_decides() -> None:
    """Autonomous: the decider runs; `.notes` is its summary."""
    model = ScriptedModel(by_task({"How deep?": finish("because", branch="Quick")}))
    envelope = await run_flow(FORK, model, autonomous=True)
    assert envelope.ok
    assert envelope.output["forks"] == {"choose": {"answer": "Quick", "notes": "because"}}
    assert "No person can be asked in this run" in model.requests[0].system


async def test_a_person_who_cancels_at_a_fork_ends_the_run() -> None:
    """The run ends with status `aborted`, reason `cancelled at fork ID`."""
    place = MemoryStorage(flows=flows_of(demo=steps(FORK)))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
        (asked,) = await runtime.parts.storage.projections.open_questions(LogId(RUN))
        await runtime.requests.answer(asked.question.question_id, {"cancel": True})
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    result = reply.envelope.output
    assert (result["status"], result["reason"]) == ("aborted", "cancelled at fork choose")


async def test_a_persons_own_words_go_to_the_decider() -> None:
    """7.3: free text: the decider runs with question, options and the text."""
    text = FORK.replace("agent: judge", "agent: judge\n    allowCustom: true")
    model = ScriptedModel(by_task({"How deep?": finish("fits", branch="Quick")}))
    place = MemoryStorage(flows=flows_of(demo=steps(text)))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
        (asked,) = await runtime.parts.storage.projections.open_questions(LogId(RUN))
        await runtime.requests.answer(asked.question.question_id, {"text": "not too deep"})
        reply = await runtime.requests.wait(RUN)
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


PARSED_FORK = """
  - {id: pre, agent: scout, task: pre}
  - id: choose
    question: "Deep ${{result.pre.summary}} ${{result.gone.x}}?"
    options: [Quick, Deep]
    branches: {Quick: quick, Deep: deep, Hidden: deep}
    agent: judge
    allowCustom: true
  - {id: quick, agent: scout, task: quick}
  - {id: deep, agent: scout, task: deep}
"""
DECIDES = "Deep pre ${{task}} done ?"
ANSWERS = by_task({"pre": finish("pre ${{task}} done"), DECIDES: finish("so", branch="Quick")})


async def through(
    answer: Mapping[str, Any] | None,
) -> tuple[Json, ScriptedModel, list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Run the fork; without an answer it runs on its own."""
    place = MemoryStorage(flows=flows_of(demo=steps(PARSED_FORK)))
    model = ScriptedModel(ANSWERS)
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        if answer is None:
            result = (await run_in(runtime, autonomous=True)).output
        else:
            reply = await see_through(runtime, answer, task="t")
            assert reply.envelope is not None
            result = reply.envelope.output
        autos = await told_in(runtime, "flow_auto_decision")
        return result, model, autos, await told_in(runtime, "flow_warning")


async def test_a_persons_words_are_not_expanded() -> None:
    """V1: inserted text is never expanded again."""
    words = "my ${{result.pre.summary}} $${{task}}"
    result, model, autos, _ = await through({"text": words})
    task = model.requests[1].messages[0].content
    assert task == (
        f"Task: {DECIDES}\n\nOptions: Quick, Deep\n\n"
        f"A person answered in words of their own:\n{words}\n\n"
        "Choose the option that fits best, and say why."
    )
    assert result["forks"]["choose"]["answer"] == words
    assert autos == []


async def test_the_section_of_the_chosen_step_has_the_question_as_it_was_asked() -> None:
    """Its system prompt has fork id, question, answer, note, and who decided."""
    _, model, _, _ = await through({"value": "Quick", "notes": "now"})
    system = model.requests[1].system
    assert f"Question: {DECIDES}\nAnswer: Quick\nNote: now\nDecided by: a person" in system


async def test_a_placeholder_without_a_value_in_a_question_causes_one_warning() -> None:
    """V7: missing → empty text and an event `flow_warning {stepId, reference}`."""
    result, _, _, warnings = await through({"value": "Deep"})
    reference = "${{result.gone.x}}"
    message = f"{reference} names nothing"
    assert warnings == [{"message": message, "stepId": "choose", "reference": reference}]
    assert result["warnings"] == [message]


async def test_free_text_that_names_a_branch_and_no_option_goes_to_the_decider() -> None:
    result, model, _, _ = await through({"text": "Hidden"})
    assert len(model.requests) == 3
    assert result["results"]["quick"]["visits"] == 1
    assert result["forks"]["choose"]["answer"] == "Hidden"


@pytest.mark.parametrize("answer", [{"decide": True}, None], ids=["left to it", "autonomous"])
async def test_an_autonomous_decision_is_reported(answer: Mapping[str, Any] | None) -> None:
    """An option is left to the agent, or autonomous run: event `flow_auto_decision`."""
    result, _, autos, _ = await through(answer)
    expected = {"forkId": "choose", "agentName": "judge"}
    assert autos == [expected | {"chosenBranch": "Quick", "targetStepId": "quick"}]
    assert result["forks"]["choose"]["notes"] == "so"
    assert result["runId"] == RUN


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        ({"cancel": True, "value": "a"}, PersonChoice(is_cancelled=True)),
        ({}, PersonChoice(is_cancelled=True)),
        ({"decide": True, "notes": "n"}, PersonChoice(notes="n", is_left_to_agent=True)),
        ({"value": "a"}, PersonChoice(options=["a"])),
        ({"value": ["a", "b"], "notes": "n"}, PersonChoice(options=["a", "b"], notes="n")),
    ],
)
def test_an_answer_is_either_a_choice_or_free_text(answer: Json, choice: PersonChoice) -> None:
    assert choice_in(answer) == choice


def test_the_deciders_task_is_expanded_and_a_persons_words_are_not() -> None:
    step = Fork(step_id="f", question="q?", branches={"a": "x"}, options=("a",), task="t")
    task = decider_task(step, "said", str.upper)
    assert task.startswith("Q?\n\nOptions: a\n\n")
    assert task.endswith("\nsaid\n\nT")
