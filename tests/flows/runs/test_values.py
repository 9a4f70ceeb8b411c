"""Template values of a run, loop counters, choices at forks."""

from typing import Any

import pytest

from penstock.core.events.flow_events import SKIPPED, FileUse, StepResult, StepStatus, ValueType
from penstock.flows.definition import Flow, RunInput
from penstock.flows.runs.values import ForkAnswer, LoopCounters, RouteTaken, TemplateValues
from penstock.flows.steps.agent_decision import AgentDecision
from penstock.flows.steps.fork import Fork
from penstock.flows.steps.loop_decision import LoopDecision
from tests.flows.examples import W6, W7, W11, agent, flow

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
    parts: dict[str, Any] = {
        "flow": flow,
        "task": "the task",
        "results": RESULTS,
        "loops": LoopCounters(flow),
        "forks": {"triage": ForkAnswer("New", "soon")},
        "config": {"region": "eu", "count": 2},
    }
    return TemplateValues(**parts | more)


@pytest.mark.parametrize(
    ("template", "expected"),
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
def test_a_placeholder_expands_to_its_value(template: str, expected: str) -> None:
    """V4, V8, V9, V10."""
    known = values()
    assert known.text(template) == expected
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
    """V7: empty text and an event; the run continues."""
    known = values()
    assert known.text(f"a{place}c{place}") == "ac"
    assert known.take_missing() == [place]
    assert known.take_missing() == []


def test_wired_inputs_can_be_read() -> None:
    """V6: inputs are expanded first, then task and body once each."""
    known = values()
    assert known.text("<${{input.notes}}>", {"notes": "${{task}}"}) == "<${{task}}>"


def test_an_input_of_a_run_has_its_value() -> None:
    assert values(inputs={"where": "here"}).value("${{flow.input.where}}") == "here"


def test_the_value_of_a_single_placeholder_keeps_its_type() -> None:
    """V5."""
    assert values().value("${{result.a.list}}") == [1, 2]
    assert values().value("x ${{result.a.n}}") == "x 3"


DECISION = AgentDecision(
    step_id="gate",
    agent="judge",
    task="?",
    branches={"redo": "make", "good": "publish"},
    max_iterations=1,
)
GATED = flow(agent("make"), DECISION, agent("publish"))


def bounded(most: int, *, again: str = "draft") -> LoopDecision:
    return LoopDecision(
        step_id="again",
        agent="judge",
        task="?",
        loop_target=again,
        exit_target="publish",
        max_iterations=most,
    )


def test_the_agent_of_a_loop_is_asked_up_to_the_limit() -> None:
    """At most M jumps back and M questions to the agent."""
    step = bounded(2)
    loops = LoopCounters(flow(*W6[:3], step, W6[4]))
    assert loops.begin(step, 1) is None
    assert loops.begin(step, 2) is None
    assert loops.begin(step, 3) == RouteTaken(("publish",), 3, is_forced=True)


def test_the_iteration_is_that_of_the_visit_and_then_of_the_next_one() -> None:
    """Drafts see 1, 2, 3; the judge 1, 2."""
    step = bounded(2)
    loops = LoopCounters(flow(*W6[:3], step, W6[4]))
    seen = [loops.iteration("again")]
    for visit in (1, 2):
        loops.begin(step, visit)
        seen.append(loops.iteration("again"))
        loops.settle(step, visit, ["draft"])
        seen.append(loops.iteration("again"))
    assert seen == [1, 1, 2, 2, 3]


def test_a_loop_that_is_left_stays_at_its_visit() -> None:
    step = bounded(2)
    loops = LoopCounters(flow(*W6[:3], step, W6[4]))
    loops.begin(step, 1)
    loops.settle(step, 1, ["publish"])
    assert loops.iteration("again") == 1


def test_a_loop_body_after_the_decision_sees_its_visit() -> None:
    """W7: fix/1 sees iteration 1."""
    step = W7[1]
    assert isinstance(step, LoopDecision)
    loops = LoopCounters(flow(*W7))
    loops.begin(step, 1)
    loops.settle(step, 1, ["fix"])
    assert loops.iteration("enough") == 1


def test_a_backward_jump_is_taken_up_to_its_limit() -> None:
    """Taken less than M times so far: it is taken. Otherwise: no jump, control falls through."""
    loops = LoopCounters(GATED)
    assert loops.route(DECISION, ["make"]) == RouteTaken(("make",), 1, back=("make",))
    loops.settle(DECISION, 1, ["make"])
    assert loops.iteration("gate") == 2
    assert loops.route(DECISION, ["make"]) == RouteTaken((), 2, is_forced=True, back=("make",))
    assert loops.route(DECISION, ["publish"]) == RouteTaken(("publish",))


def test_a_forward_jump_is_not_counted() -> None:
    loops = LoopCounters(GATED)
    loops.settle(DECISION, 1, ["publish"])
    assert loops.iteration("gate") == 1


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        (0, RouteTaken(("a", "c"), 1, back=("a",))),
        (1, RouteTaken(("c",), 2, is_forced=True, back=("a",))),
    ],
    ids=["within the bound", "beyond it"],
)
def test_only_the_way_back_among_several_answers_is_limited(
    taken: int, expected: RouteTaken
) -> None:
    step = Fork(
        step_id="f",
        question="?",
        branches={"a": "a", "c": "c"},
        options=("a", "c"),
        is_multiple=True,
        max_iterations=1,
    )
    loops = LoopCounters(flow(agent("a"), step, agent("c")))
    for _ in range(taken):
        loops.settle(step, 1, ["a"])
    assert loops.route(step, ["a", "c"]) == expected
