"""The layout of the picture of a flow."""

from itertools import combinations

import pytest

from penstock.flows.picture_layout import Box, Drawing, drawing, fitted, letters
from tests.flows.texts import read
from tests.kit.worked_examples import MANY, W1, W6, WORKED


def drawn(steps: str) -> Drawing:
    flow = read(steps).flow
    assert flow is not None
    return drawing(flow)


def overlap(one: Box, other: Box) -> bool:
    across = one.x < other.x + other.width and other.x < one.x + one.width
    return across and one.y < other.bottom and other.y < one.bottom


@pytest.mark.parametrize("steps", [*WORKED.values(), MANY], ids=[*WORKED, "30 steps"])
def test_steps_do_not_overlap_and_are_inside_their_segment(steps: str) -> None:
    made = drawn(steps)
    assert not any(overlap(one.box, other.box) for one, other in combinations(made.nodes, 2))
    for node in made.nodes:
        around = [each for each in made.segments if overlap(node.box, each)]
        assert len(around) == 1
        assert 0 <= node.box.x < node.box.x + node.box.width <= made.width
        assert 0 <= node.box.y < node.box.bottom <= made.height


def test_a_step_is_below_the_steps_that_it_waits_for() -> None:
    made = drawn(W1)
    assert [(one.step_id, other.step_id) for one, other in made.needs] == [
        ("web", "report"),
        ("code", "report"),
    ]
    assert all(one.box.bottom < other.box.y for one, other in made.needs)


def test_forward_jumps_are_on_the_right_and_backward_jumps_on_the_left() -> None:
    made = drawn(W6)
    loop, on = made.lanes
    assert (loop.label, loop.is_back, loop.x < made.segments[0].x) == ("loop", True, True)
    right = made.segments[0].x + made.segments[0].width
    assert (on.label, on.is_back, on.x > right) == ("exit", False, True)


def test_overlapping_jumps_have_separate_lanes() -> None:
    for one, other in combinations(drawn(MANY).lanes, 2):
        if one.x == other.x:
            spans = [sorted((each.leaves[2], each.arrives[2])) for each in (one, other)]
            spans.sort()
            assert spans[0][1] <= spans[1][0]


def test_a_flow_with_errors_is_drawn() -> None:
    """A branch or a wait that names no step; steps that wait for each other, or for themselves."""
    steps = """\
- {id: a, agent: scout, blockedBy: [b, absent]}
- {id: b, agent: scout, blockedBy: [a, b]}
- {id: ask, question: Q, branches: {Yes: gone, No: gone, Maybe: lost}}
"""
    made = drawn(steps)
    assert [each.step_id for each in made.nodes] == ["a", "b", "ask", "gone", "lost"]
    assert [each.caption for each in made.nodes[-2:]] == ["no such step", "no such step"]
    assert not any(overlap(one.box, other.box) for one, other in combinations(made.nodes, 2))


def test_many_steps_with_backward_dependencies_are_drawn() -> None:
    most = 500
    waits = (f"- {{id: s{n}, agent: scout, blockedBy: [s{n + 1}]}}\n" for n in range(most))
    assert len(drawn("".join(waits) + f"- {{id: s{most}, agent: scout}}\n").nodes) == most + 1


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("日本語", 6, "日本語"),
        ("日本語の", 6, "日本…"),
        ("", 3, ""),
    ],
)
def test_a_text_is_cut_to_the_available_width(text: str, most: int, shown: str) -> None:
    assert fitted(text, most) == shown
    assert letters(shown) <= most
