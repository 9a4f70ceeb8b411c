"""What a step is, by its kind."""

from penstock.flows.definition import ROUTERS, Flow, StepKind
from tests.flows.examples import W3, W4, flow


def test_a_router_is_what_says_which_step_is_next() -> None:
    """A step of type fork, conditional, agent-, agent-loop- or code-decision."""
    names = {"fork", "conditional", "agent-decision", "agent-loop-decision", "code-decision"}
    assert {StepKind(each) for each in names} == ROUTERS
    assert [step.is_router for step in W4] == [True, False, False, False]


def test_steps_are_found_by_their_ids_in_the_order_of_the_file() -> None:
    found: Flow = flow(*W3)
    assert list(found.by_id) == ["plan", "build", "docs", "notes", "check", "repair"]
    assert found.by_id["build"] is W3[1]
