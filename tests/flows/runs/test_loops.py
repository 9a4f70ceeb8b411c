"""Counters of loops, and the bounds they keep."""

import pytest

from penstock.flows.runs.loops import LoopCounters, RouteTaken
from penstock.flows.steps.agent_decision import AgentDecision
from penstock.flows.steps.fork import Fork
from penstock.flows.steps.loop_decision import LoopDecision
from tests.flows.examples import W6, W7, agent, flow

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


def test_the_agent_of_a_loop_is_asked_as_often_as_the_loop_may_turn() -> None:
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


def test_a_body_that_stands_after_the_decision_sees_its_visit() -> None:
    """W7: fix/1 sees iteration 1."""
    step = W7[1]
    assert isinstance(step, LoopDecision)
    loops = LoopCounters(flow(*W7))
    loops.begin(step, 1)
    loops.settle(step, 1, ["fix"])
    assert loops.iteration("enough") == 1


def test_a_way_back_is_taken_up_to_its_limit() -> None:
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
    ("taken", "wanted"),
    [
        (0, RouteTaken(("a", "c"), 1, back=("a",))),
        (1, RouteTaken(("c",), 2, is_forced=True, back=("a",))),
    ],
    ids=["within the bound", "beyond it"],
)
def test_of_several_answers_only_the_way_back_is_bounded(taken: int, wanted: RouteTaken) -> None:
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
    assert loops.route(step, ["a", "c"]) == wanted
