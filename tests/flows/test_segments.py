"""Segments, and the dependencies inside a segment."""

from penstock.flows.segments import Segments
from tests.flows.examples import agent, flow, shell


def test_agent_steps_side_by_side_are_one_segment_and_any_other_step_is_alone() -> None:
    """P1: consecutive agent steps; every other step alone."""
    segments = Segments(flow(agent("a"), agent("b"), shell("c"), agent("d")).steps)
    assert [[step.step_id for step in each] for each in segments.all] == [["a", "b"], ["c"], ["d"]]
    assert segments.of == {"a": 0, "b": 0, "c": 1, "d": 2}


def test_a_step_waits_for_steps_of_its_own_segment_alone() -> None:
    steps = flow(agent("a"), shell("b"), agent("c"), agent("d", "a", "c")).steps
    segments = Segments(steps)
    assert segments.blockers(steps[3]) == ["c"]
    assert (list(segments.blocked_by("c")), list(segments.blocked_by("a"))) == (["d"], [])


def test_what_waits_for_a_target_is_reached_with_it() -> None:
    segments = Segments(flow(agent("a"), agent("b", "a"), agent("c", "b"), agent("d")).steps)
    assert segments.reach(["b"]) == {"b", "c"}


def test_targets_are_grouped_by_segment_in_file_order() -> None:
    segments = Segments(flow(agent("a"), shell("b"), agent("c"), agent("d")).steps)
    assert segments.group(["d", "b", "c", "d"]) == [("b",), ("d", "c")]
