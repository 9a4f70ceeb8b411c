"""Loops, and branches that run into each other: what a flow does that its author may not expect."""

from collections.abc import Iterator, Sequence

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.reachability import (
    ABSENT,
    BRANCHES,
    LOOP_TARGET,
    ON_COMPLETE,
    ON_ERROR,
    PRESENT,
    Route,
    branches_of,
)
from penstock.flows.checks.view import FlowView
from penstock.flows.definition import AnyStep, Conditional, Fork, LoopDecision
from penstock.flows.reading.steps import ParsedStep
from penstock.manifest.fields import quoted

PLAIN = frozenset({ON_COMPLETE, ON_ERROR, PRESENT, ABSENT})
"""Jumps that nothing counts."""
TOGETHER = (
    "put both branches into one run of agent steps, or close the first with on_complete "
    "or end: true"
)
COUNT = "max_iterations"


def check_loops(view: FlowView) -> Iterator[Diagnostic]:
    """Yield loops without an end, and steps that run although another way was taken."""
    for each in view.steps:
        for route in view.ways.routes(each.step):
            yield from _check_route(view, each, route)
        if isinstance(each.step, LoopDecision):
            yield from _check_loop_target(view, each, each.step)
        elif each.step.is_router and not isinstance(each.step, Conditional):
            yield from _check_count(view, each)
            yield from _check_falls(view, each)


def _check_route(view: FlowView, each: ParsedStep, route: Route) -> Iterator[Diagnostic]:
    ways, step = view.ways, each.step
    is_back = ways.is_back(route.target, step.step_id)
    at = each.node.at(route.field).key_place
    if route.field in PLAIN and is_back and ways.is_unbounded(route.target, step.step_id):
        said = (
            f'{route.field} of {each.label} leads back to "{route.target}" '
            "and nothing bounds the loop"
        )
        yield each.warning("route-unbounded", said, at, "put an agent-loop-decision in the loop")
    is_near = ways.segments.of[route.target] == ways.segments.of[step.step_id]
    if route.field == ON_ERROR and is_near and not is_back and ways.runs_anyway(route.target):
        said = f'on_error target "{route.target}" of {each.label} also runs without an error'
        yield each.warning("error-target-runs", said, at, "put it behind a step with end: true")


def _check_loop_target(
    view: FlowView, each: ParsedStep, step: LoopDecision
) -> Iterator[Diagnostic]:
    target = step.loop_target
    if target not in view.by_id or view.ways.is_back(target, step.step_id):
        return
    if not view.ways.leads_back(target, step.step_id):
        said = f'loop_target "{target}" of {each.label} stands later and nothing leads back'
        yield each.warning("loop-target-forward", said, each.node.at(LOOP_TARGET).key_place)


def _check_count(view: FlowView, each: ParsedStep) -> Iterator[Diagnostic]:
    """Yield that a way back is not counted, or that there is none to count."""
    step, branches = each.step, branches_of(each.step)
    back = [
        name
        for name, target in branches.items()
        if target in view.by_id and view.ways.is_back(target, step.step_id)
    ]
    if step.max_iterations is not None and not back:
        said = f"{COUNT} of {each.label} has no effect: no branch leads back"
        advice = "use type: agent-loop-decision if the loop body stands later"
        yield each.warning("max-iterations-unused", said, each.node.at(COUNT).key_place, advice)
    for name in back if COUNT not in each.node.value and not isinstance(step, Fork) else ():
        said = (
            f'branch {quoted(name)} of {each.label} leads back to "{branches[name]}" '
            f"without {COUNT}"
        )
        at = each.node.at(BRANCHES, name).key_place
        yield each.warning("back-branch-unbounded", said, at, f"add {COUNT}: 3")


def _check_falls(view: FlowView, each: ParsedStep) -> Iterator[Diagnostic]:
    """Yield for each branch the first step of another one that runs after it anyway."""
    names: dict[str, str] = {}
    for name, target in branches_of(each.step).items():
        if target in view.by_id:
            names.setdefault(target, name)
    for target, name in names.items():
        others = names.keys() - {target}
        for ran, segment in view.ways.falls_from(target):
            met = next((step.step_id for step in segment if step.step_id in others), None)
            if met is None:
                continue
            if not _builds_on(view, segment, ran):
                said = (
                    f"after branch {quoted(name)} of {each.label} the step "
                    f'"{met}" of branch {quoted(names[met])} runs too'
                )
                yield each.warning("branch-falls-through", said, suggestion=TOGETHER)
            break


def _builds_on(view: FlowView, segment: Sequence[AnyStep], ran: Sequence[AnyStep]) -> bool:
    """Whether a segment wants what ran before it: it waits for it, or reads its results."""
    before = {step.step_id for step in ran}
    for step in segment:
        wanted = {*step.blocked_by, *view.reads.get(step.step_id, ())}
        if isinstance(step, Conditional):
            wanted |= {step.check, step.check.rpartition(".")[0]}
        if before & wanted:
            return True
    return False
