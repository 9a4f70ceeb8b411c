"""Events for the readers of a run."""

import pytest

from penstock.core.events.flow_events import Outcome, StepResult
from penstock.flows.run_events import consequence_event, route_events, waits_event
from penstock.flows.runs.plan import Aborted, FlowEnded, Jumped, Notice, RunStatus, Skipped
from penstock.flows.runs.plan import SkipReason as Reason
from penstock.flows.runs.values import RouteTaken
from penstock.flows.runs.visits import VisitOutcome
from penstock.flows.steps.kind import VisitResult
from tests.flows.examples import agent, fork, loop

DONE = VisitOutcome(outcome=Outcome.SUCCESS, result=StepResult())


@pytest.mark.parametrize(
    ("notice", "kind", "body"),
    [
        (
            Jumped("a", ("b", "c"), "branch"),
            "flow_jump",
            {"from": "a", "to": ["b", "c"], "why": "branch"},
        ),
        (
            Skipped("a", Reason.JUMPED_OVER),
            "flow_step_skipped",
            {"stepId": "a", "reason": "jumped_over"},
        ),
        (Aborted("a"), "flow_step_aborted", {"stepId": "a"}),
    ],
)
def test_a_consequence_of_an_outcome_is_an_event(
    notice: Notice, kind: str, body: dict[str, object]
) -> None:
    event = consequence_event(notice)
    assert event is not None
    assert (event.kind, event.body) == (kind, body)


def test_the_end_of_a_flow_has_its_own_event() -> None:
    assert consequence_event(FlowEnded(RunStatus.SUCCESS)) is None


def test_an_iteration_of_a_loop_step_is_reported_at_its_start_only() -> None:
    visited = VisitResult(ended=DONE, route=RouteTaken(("a",), 2, back=("a",)))
    assert list(route_events(loop("again", "a", "z"), visited)) == []
    assert [event.kind for event in route_events(agent("b"), visited)] == ["flow_loop_iteration"]


def test_an_autonomous_fork_is_reported() -> None:
    visited = VisitResult(
        ended=DONE,
        route=RouteTaken(("a", "b")),
        answer="Both",
        decided_by="judge",
        is_left_to_agent=True,
    )
    (event,) = route_events(fork("pick", "a", "b"), visited)
    assert event.kind == "flow_auto_decision"
    assert event.body == {
        "forkId": "pick",
        "agentName": "judge",
        "chosenBranch": "Both",
        "targetStepId": "a, b",
    }


def test_a_wait_carries_the_active_time() -> None:
    event = waits_event("a", waits=True, active_ms=12)
    assert event.body == {"stepId": "a", "waits": True, "activeMs": 12}
