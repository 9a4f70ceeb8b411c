"""Template values of a run."""

from typing import Any

import pytest

from penstock.core.events.flow_events import SKIPPED, FileUse, StepResult, StepStatus, ValueType
from penstock.flows.definition import Flow, RunInput
from penstock.flows.runs.fork_choice import ForkAnswer
from penstock.flows.runs.loops import LoopCounters
from penstock.flows.runs.values import TemplateValues
from tests.flows.examples import W6, W11

RESULTS = {
    "a": StepResult(
        summary="short",
        full_output="long",
        artifacts="<x/>",
        files=(FileUse("a.py", "created"), FileUse("b.py", "read")),
        outputs={"n": 3, "list": [1, 2], "summary2": "s"},
    ),
    "failed": StepResult(status=StepStatus.BLOCKED, summary="no key"),
    "picked": StepResult(branch=("x", "y")),
    "gone": SKIPPED,
    "ref": StepResult(full_output="of the ref"),
    "ref.sum": StepResult(full_output="of its step", outputs={"total": 7}),
    "ref.1.sum": StepResult(full_output="of the first match"),
}


def values(**more: Any) -> TemplateValues:
    inputs = (RunInput(name="where", value_type=ValueType.STRING),)
    steps: Any = (*W6, *W11)
    flow = Flow(name="f", description="d", steps=steps, inputs=inputs)
    given: dict[str, Any] = {
        "flow": flow,
        "task": "the task",
        "results": RESULTS,
        "loops": LoopCounters(flow),
        "forks": {"triage": ForkAnswer("New", "soon")},
        "config": {"region": "eu", "count": 2},
    }
    return TemplateValues(**given | more)


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("${{task}}", "the task"),
        ("${{result.a}}", "long"),
        ("${{result.a.output}}", "long"),
        ("${{result.a.fullOutput}}", "long"),
        ("${{result.a.summary}}", "short"),
        ("${{result.a.artifacts}}", "<x/>"),
        ("${{result.a.files}}", "a.py (created), b.py (read)"),
        ("${{result.a.status}}", "complete"),
        ("${{result.a.n}}", "3"),
        ("${{result.a.list}}", "[1,2]"),
        ("${{result.failed.status}}", "blocked"),
        ("${{result.picked.branch}}", "x, y"),
        ("${{result.gone}}", ""),
        ("${{result.gone.summary}}", ""),
        ("${{result.gone.anything}}", ""),
        ("${{result.gone.status}}", "skipped"),
        ("${{result.ref}}", "of the ref"),
        ("${{result.ref.sum}}", "of its step"),
        ("${{result.ref.sum.total}}", "7"),
        ("${{result.ref.1.sum}}", "of the first match"),
        ("${{loop.again.iteration}}", "1"),
        ("${{loop.again.max}}", ""),
        ("${{fork.triage.answer}}, ${{fork.triage.notes}}", "New, soon"),
        ("${{config.region}}${{config.count}}", "eu2"),
        ("${{flow.input.where}}", ""),
    ],
)
def test_a_placeholder_expands_to_its_value(template: str, wanted: str) -> None:
    """V4, V8, V9, V10."""
    known = values()
    assert known.text(template) == wanted
    assert known.take_missing() == []


@pytest.mark.parametrize(
    "place",
    [
        "${{result.b.x}}",
        "${{result.a.nothing}}",
        "${{loop.gather.iteration}}",
        "${{loop.nobody.max}}",
        "${{fork.choose.answer}}",
        "${{config.nothing}}",
        "${{flow.input.nothing}}",
        "${{input.nothing}}",
    ],
)
def test_a_missing_value_is_empty_and_noted_once(place: str) -> None:
    """V7: empty text and an event; the run goes on."""
    known = values()
    assert known.text(f"a{place}c{place}") == "ac"
    assert known.take_missing() == [place]
    assert known.take_missing() == []


def test_wired_inputs_are_read_where_they_are_given() -> None:
    """V6: inputs are expanded first, then task and body once each."""
    known = values()
    assert known.text("<${{input.notes}}>", {"notes": "${{task}}"}) == "<${{task}}>"


def test_an_input_of_a_run_has_its_value() -> None:
    assert values(inputs={"where": "here"}).value("${{flow.input.where}}") == "here"


def test_a_value_keeps_its_type_when_it_is_one_place() -> None:
    """V5."""
    assert values().value("${{result.a.list}}") == [1, 2]
    assert values().value("x ${{result.a.n}}") == "x 3"
