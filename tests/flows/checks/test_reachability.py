"""Reachability between the steps of a flow."""

import re
from typing import Any

import pytest

from penstock.flows.checks.reachability import Graph, Reachability, components
from penstock.flows.runs.plan import Plan
from tests.flows.examples import (
    EXAMPLES,
    W1,
    W3,
    W4,
    W6,
    W7,
    W8,
    W9,
    W10,
    W11,
    agent,
    flow,
    fork,
    ref,
)
from tests.flows.planned import run


@pytest.mark.parametrize(
    ("steps", "first", "then", "expected"),
    [
        (W1, "web", "report", True),
        (W1, "web", "code", False),
        (W3, "plan", "check", True),
        (W3, "check", "repair", False),
        (W3, "notes", "repair", False),
        (W3, "build", "repair", True),
        (W4, "quick", "deep", False),
        (W6, "review", "draft", True),
        (W6, "review", "gather", False),
        (W6, "draft", "draft", True),
        (W7, "fix", "done", True),
        (W7, "fix", "verify", True),
        (W8, "fetch", "cached", True),
        (W8, "sum", "cached", True),
        (W9, "make", "publish", True),
        (W10, "unit", "load", True),
        (W10, "load", "unit", False),
        (W9, "gate", "salvage", True),
        (W11, "explore", "repair", True),
        (W11, "repair", "explore", False),
    ],
)
def test_a_step_may_precede_another_if_a_path_leads_there(
    steps: Any, first: str, then: str, expected: bool
) -> None:
    assert Reachability(steps).may_precede(first, then) is expected


def test_a_jump_into_a_part_of_a_segment_may_fall_through() -> None:
    steps = (fork("f", "a", "b"), agent("a"), agent("b", is_last=True), agent("z"))
    assert Reachability(steps).may_precede("a", "z") is True
    assert Reachability(steps).may_precede("b", "z") is False


def test_on_complete_to_a_waiting_step_is_not_a_jump() -> None:
    """Ignored if the target is in the same segment and waits for this step anyway."""
    steps = (agent("a", on_complete="b"), agent("b", "a"), ref("c"))
    ways = Reachability(steps)
    assert ways.routes(steps[0]) == ()
    assert ways.may_precede("a", "c")


def test_the_segments_after_a_jump_target_fall_through_until_another_jump() -> None:
    ways = Reachability((fork("f", "a", "b"), ref("a"), ref("x"), fork("g", "a", "b"), ref("b")))
    segments = [[step.step_id for step in segment] for _, segment in ways.falls_from("a")]
    assert segments == [["x"], ["g"]]


def test_a_jump_on_success_waits_for_all_steps_chosen_together() -> None:
    """`on_complete` jumps and `end` wait until the last has ended."""
    chosen = fork("f", "a", "b", is_multiple=True)
    early = (ref("early"), chosen, ref("a", on_complete="early"), ref("b", is_last=True))
    assert Reachability(early).may_precede("b", "early") is True


@pytest.mark.parametrize("example", EXAMPLES, ids=[each[0] for each in EXAMPLES])
def test_reachability_allows_everything_that_the_plan_does(example: Any) -> None:
    """Every step that ended before a step of another segment started may precede it."""
    _, steps, answers, lasts, _ = example
    ways, over = Reachability(steps), set[str]()
    for what, step_id in re.findall(r"([-+!])(\w+)/", run(Plan(flow(*steps)), answers, lasts)):
        if what != "+":
            over.add(step_id)
            continue
        before = {
            each for each in over if ways.segments.index[each] != ways.segments.index[step_id]
        }
        allowed = {each for each in before if ways.may_precede(each, step_id)}
        assert allowed == before


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ([], []),
        ([[]], [{0}]),
        ([[0]], [{0}]),
        ([[1], [2], []], [{2}, {1}, {0}]),
        ([[1], [2], [0]], [{0, 1, 2}]),
        ([[1], [0, 2], [3], [2]], [{2, 3}, {0, 1}]),
        ([[2], [0], [1, 3], []], [{3}, {0, 1, 2}]),
        ([[], [0], [1, 0], [3, 2]], [{0}, {1}, {2}, {3}]),
    ],
)
def test_components_are_in_reverse_topological_order(
    graph: Graph, expected: list[set[int]]
) -> None:
    assert [set(each) for each in components(graph)] == expected


def test_a_ring_of_20000_nodes_needs_no_recursion() -> None:
    count = 20_000
    ring = [[(n + 1) % count] for n in range(count)]
    assert [len(each) for each in components(ring)] == [count]
