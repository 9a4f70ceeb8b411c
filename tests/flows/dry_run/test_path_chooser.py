"""Which ways are taken."""

from penstock.flows.definition import Flow
from penstock.flows.dry_run.path_chooser import PathChooser
from tests.flows.texts import read
from tests.kit.worked import W4, W6, W9


def _flow(text: str) -> Flow:
    flow = read(text).flow
    assert flow
    return flow


def test_what_was_not_seen_comes_first() -> None:
    flow = _flow(W4)
    chooser = PathChooser(flow, sees_all=True)
    fork = flow.by_id["choose"]
    assert [chooser.choose(fork).branch for _ in range(2)] == ["Quick", "Deep"]


def test_who_wishes_to_see_nothing_goes_to_the_end() -> None:
    flow = _flow(W6)
    chooser = PathChooser(flow, sees_all=False)
    assert chooser.is_done
    assert [chooser.choose(flow.by_id["again"]).branch for _ in range(3)] == ["exit"] * 3


def test_a_loop_goes_round_to_its_cap_once_it_was_begun() -> None:
    flow = _flow(W6)
    chooser = PathChooser(flow, sees_all=True)
    seen = [chooser.choose(flow.by_id["again"]).branch for _ in range(4)]
    assert seen == ["exit", "loop", "cap", "cap"]


def test_a_bound_is_used_up_to_see_what_stands_behind_it() -> None:
    """With `max_iterations` = M … otherwise no jump, control falls through."""
    flow = _flow(W9)
    chooser = PathChooser(flow, sees_all=True)
    for step_id in ("make", "publish"):
        chooser.choose(flow.by_id[step_id])
    branches = [chooser.choose(flow.by_id["gate"]).branch for _ in range(4)]
    assert branches == ["redo", "good", "redo", "redo"]


def test_a_run_that_saw_nothing_new_is_not_made_again() -> None:
    chooser = PathChooser(_flow(W4), sees_all=True)
    chooser.begin()
    chooser.end()
    assert chooser.is_done
    assert chooser.unseen
