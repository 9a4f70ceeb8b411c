"""Steps by kind, and segments."""

import pytest

from penstock.flows.definition import Flow, Route, Segments
from penstock.flows.steps.table import KINDS
from tests.flows.examples import W3, W4, agent, decision, flow, fork, loop, shell
from tests.flows.texts import step_of


def test_forks_conditionals_and_decisions_are_routers() -> None:
    """A step of type fork, conditional, agent-, agent-loop- or code-decision."""
    names = {"fork", "conditional", "agent-decision", "agent-loop-decision", "code-decision"}
    assert {name for name, kind in KINDS.items() if kind.step.is_router} == names
    assert [step.is_router for step in W4] == [True, False, False, False]


def test_steps_are_found_by_their_ids_in_the_order_of_the_file() -> None:
    definition: Flow = flow(*W3)
    assert list(definition.by_id) == ["plan", "build", "docs", "notes", "check", "repair"]
    assert definition.by_id["build"] is W3[1]


def test_a_step_yields_its_jumps_with_the_field_that_names_each() -> None:
    assert list(agent("a", on_complete="b", on_error="c").routes()) == [
        Route("on_complete", "b"),
        Route("on_error", "c"),
    ]
    assert [route.field for route in loop("l", "a", "b").routes()] == ["loop_target", "exit_target"]
    assert list(decision("d", "x").routes()) == [Route("branches", "x", "x", is_limited=True)]
    assert (agent("a").branches, fork("f", "a").branches) == ({}, {"a": "a"})


@pytest.mark.parametrize(
    ("fields", "branches"),
    [
        ("id: a, agent: x", [""]),
        ("id: a, agent: x, on_error: a", ["", "on_error"]),
        ("id: a, command: make, on_error: a", ["", "on_error"]),
        ("id: a, check: b, present: a, absent: a", ["present", "absent"]),
        ("id: a, agent: x, task: t, branches: {yes: a, no: b}", ["yes", "no"]),
        ("id: a, type: code-decision, branches: {yes: a, no: b}", ["yes", "no"]),
        ("id: a, question: q, branches: {A: a, B: b}", ["A", "B"]),
        ("id: a, question: q, branches: {A: a, B: b}, multiSelect: true", ["A", "B", "A, B"]),
        (
            "id: a, agent: x, task: t, loop_target: a, exit_target: b, max_iterations: 2",
            ["exit", "loop", "cap"],
        ),
    ],
)
def test_a_step_may_end_by_each_branch_once_and_by_all_options_together(
    fields: str, branches: list[str]
) -> None:
    """Multi-select each alone and all together; exit at once, once around, to the cap."""
    assert [each.branch for each in step_of(fields).choices()] == branches


def test_a_branch_that_is_called_cap_is_a_branch() -> None:
    step = step_of("id: a, agent: x, task: t, branches: {cap: a, no: b}")
    assert not step.choices()[0].is_cap


def test_consecutive_agent_steps_are_one_segment_and_any_other_step_is_its_own() -> None:
    """P1: consecutive agent steps; every other step alone."""
    segments = Segments(flow(agent("a"), agent("b"), shell("c"), agent("d")).steps)
    assert [[step.step_id for step in each] for each in segments.all] == [["a", "b"], ["c"], ["d"]]
    assert segments.index == {"a": 0, "b": 0, "c": 1, "d": 2}


def test_a_step_waits_only_for_steps_of_its_segment() -> None:
    steps = flow(agent("a"), shell("b"), agent("c"), agent("d", "a", "c")).steps
    segments = Segments(steps)
    assert segments.blockers(steps[3]) == ["c"]
    assert (list(segments.blocked_by("c")), list(segments.blocked_by("a"))) == (["d"], [])


def test_steps_that_wait_for_a_target_are_reached_with_it() -> None:
    segments = Segments(flow(agent("a"), agent("b", "a"), agent("c", "b"), agent("d")).steps)
    assert segments.reach(["b"]) == {"b", "c"}


def test_targets_are_grouped_by_segment_in_file_order() -> None:
    segments = Segments(flow(agent("a"), shell("b"), agent("c"), agent("d")).steps)
    assert segments.group(["d", "b", "c", "d"]) == [("b",), ("d", "c")]
