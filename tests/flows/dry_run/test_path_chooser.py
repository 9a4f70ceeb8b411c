"""The choice of paths."""

from penstock.flows.definition import Flow
from penstock.flows.dry_run.path_chooser import PathChooser
from tests.flows.texts import read
from tests.kit.worked_examples import W4, W6, W9


def _flow(text: str) -> Flow:
    flow = read(text).flow
    assert flow
    return flow


def test_new_outcomes_come_first() -> None:
    flow = _flow(W4)
    chooser = PathChooser(flow, sees_all=True)
    fork = flow.by_id["choose"]
    assert [chooser.choose(fork).branch for _ in range(2)] == ["Quick", "Deep"]


def test_a_chooser_without_goals_goes_to_the_end() -> None:
    flow = _flow(W6)
    chooser = PathChooser(flow, sees_all=False)
    assert chooser.is_done
    assert [chooser.choose(flow.by_id["again"]).branch for _ in range(3)] == ["exit"] * 3


def test_a_loop_that_was_entered_repeats_to_its_limit() -> None:
    flow = _flow(W6)
    chooser = PathChooser(flow, sees_all=True)
    seen = [chooser.choose(flow.by_id["again"]).branch for _ in range(4)]
    assert seen == ["exit", "loop", "cap", "cap"]


def test_a_limit_is_used_up_to_reach_the_steps_after_it() -> None:
    """With `max_iterations` = M … otherwise no jump, control falls through."""
    flow = _flow(W9)
    chooser = PathChooser(flow, sees_all=True)
    for step_id in ("make", "publish"):
        chooser.choose(flow.by_id[step_id])
    branches = [chooser.choose(flow.by_id["gate"]).branch for _ in range(4)]
    assert branches == ["redo", "good", "redo", "redo"]


def test_a_run_without_anything_new_is_not_repeated() -> None:
    chooser = PathChooser(_flow(W4), sees_all=True)
    chooser.begin()
    chooser.end()
    assert chooser.is_done
    assert chooser.unseen
