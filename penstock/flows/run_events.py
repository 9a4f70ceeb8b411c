"""Events for the readers of a run: jumps, skipped steps, iterations, decisions, waits.

They describe what the log already has in another form. No fold of a run reads them, except the
waits, from which the active time of a visit follows (`penstock.flows.runs.visits`).
"""

from collections.abc import Iterator
from typing import assert_never

from penstock.core.events.flow_events import FlowNotified
from penstock.flows.definition import Step
from penstock.flows.runs.plan import Aborted, FlowEnded, Jumped, Notice, Skipped
from penstock.flows.runs.values import RouteTaken
from penstock.flows.runs.visits import STEP_WAITS
from penstock.flows.steps.kind import VisitResult


def route_events(step: Step, visited: VisitResult) -> Iterator[FlowNotified]:
    """Yield the events for a decision made without a person, and for an iteration it starts."""
    route = visited.route
    if visited.is_left_to_agent and visited.answer is not None:
        body = {
            "forkId": step.step_id,
            "agentName": visited.decided_by,
            "chosenBranch": visited.answer,
            "targetStepId": ", ".join(route.targets),
        }
        yield FlowNotified(kind="flow_auto_decision", body=body)
    # The iteration of a loop step is reported when its visit starts.
    if route.iteration and not step.counts_visits:
        yield iteration_event(step, route)


def iteration_event(step: Step, route: RouteTaken) -> FlowNotified:
    """Return the event for one iteration of a loop, or of a branch that leads back."""
    body = {
        "stepId": step.step_id,
        "iteration": route.iteration,
        "maxIterations": step.max_iterations,
        "loopTarget": ", ".join(route.back),
        "forced": route.is_forced,
    }
    return FlowNotified(kind="flow_loop_iteration", body=body)


def consequence_event(notice: Notice) -> FlowNotified | None:
    """Return the event for a consequence of an outcome. The end of the flow has its own event."""
    match notice:
        case Jumped(source=source, targets=targets, why=why):
            body = {"from": source, "to": list(targets), "why": why}
            return FlowNotified(kind="flow_jump", body=body)
        case Skipped(step_id=step_id, why=why):
            return FlowNotified(
                kind="flow_step_skipped", body={"stepId": step_id, "reason": why.value}
            )
        case Aborted(step_id=step_id):
            return FlowNotified(kind="flow_step_aborted", body={"stepId": step_id})
        case FlowEnded():
            return None
        case _:
            assert_never(notice)


def waits_event(step_id: str, *, waits: bool, active_ms: int) -> FlowNotified:
    """Return the event for a visit that starts or stops waiting for people."""
    body = {"stepId": step_id, "waits": waits, "activeMs": active_ms}
    return FlowNotified(kind=STEP_WAITS, body=body)
