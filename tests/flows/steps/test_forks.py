"""Forks: the question, the task of the decider, and the events (section 7.3)."""

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.core.envelope import Json
from penstock.flows.definition import Fork
from penstock.flows.steps.forks import PersonChoice, choice_in, decider_task
from penstock.models.scripted import ScriptedModel
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.flows import (
    RUN,
    WORKERS,
    by_task,
    finish,
    flows_of,
    run_in,
    see_through,
    steps,
    told_in,
)

FORK = """
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
    place = MemoryStorage(flows=flows_of(demo=steps(FORK)))
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
    """V1: inserted text is never looked at again."""
    words = "my ${{result.pre.summary}} $${{task}}"
    result, model, autos, _ = await through({"text": words})
    told = model.requests[1].messages[0].content
    assert told == (
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
async def test_a_decision_by_an_agent_alone_is_reported(answer: Mapping[str, Any] | None) -> None:
    """An option is left to the agent, or autonomous run: event `flow_auto_decision`."""
    result, _, autos, _ = await through(answer)
    wanted = {"forkId": "choose", "agentName": "judge"}
    assert autos == [wanted | {"chosenBranch": "Quick", "targetStepId": "quick"}]
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
def test_an_answer_says_one_thing(answer: Json, choice: PersonChoice) -> None:
    assert choice_in(answer) == choice


def test_the_deciders_task_is_expanded_and_a_persons_words_are_not() -> None:
    step = Fork(step_id="f", question="q?", branches={"a": "x"}, options=("a",), task="t")
    told = decider_task(step, "said", str.upper)
    assert told.startswith("Q?\n\nOptions: a\n\n")
    assert told.endswith("\nsaid\n\nT")
