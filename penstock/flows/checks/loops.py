"""Checks for endless loops, and for branches that run into each other."""

from collections.abc import Iterator, Sequence

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.view import FlowView
from penstock.flows.definition import BRANCHES, ON_ERROR, Route, Step
from penstock.flows.parsed import ParsedStep
from penstock.manifest.fields import quoted

TOGETHER = (
    "put both branches into one run of agent steps, or close the first with on_complete "
    "or end: true"
)
COUNT = "max_iterations"


def check_loops(view: FlowView) -> Iterator[Diagnostic]:
    """Yield loops without a limit, and steps that run although another branch was chosen."""
    for parsed in view.steps:
        for route in view.ways.routes(parsed.step):
            yield from _check_route(view, parsed, route)
        if parsed.step.has_branches:
            yield from _check_count(view, parsed)
            yield from _check_falls(view, parsed)


def _check_route(view: FlowView, parsed: ParsedStep, route: Route) -> Iterator[Diagnostic]:
    ways, step = view.ways, parsed.step
    is_back = ways.is_back(route.target, step.step_id)
    place = parsed.node.at(route.field).key_place
    if not route.is_limited and is_back and ways.is_unbounded(route.target, step.step_id):
        message = (
            f'{route.field} of {parsed.label} leads back to "{route.target}" '
            "and nothing bounds the loop"
        )
        yield parsed.warning(
            "route-unbounded", message, place, "put an agent-loop-decision in the loop"
        )
    is_near = ways.segments.of[route.target] == ways.segments.of[step.step_id]
    if route.field == ON_ERROR and is_near and not is_back and ways.runs_anyway(route.target):
        message = f'on_error target "{route.target}" of {parsed.label} also runs without an error'
        yield parsed.warning(
            "error-target-runs", message, place, "put it behind a step with end: true"
        )


def _check_count(view: FlowView, parsed: ParsedStep) -> Iterator[Diagnostic]:
    """Yield branches that lead back without a limit, and limits without effect."""
    step, branches = parsed.step, parsed.step.branches
    back = [
        name
        for name, target in branches.items()
        if target in view.by_id and view.ways.is_back(target, step.step_id)
    ]
    if step.max_iterations is not None and not back:
        message = f"{COUNT} of {parsed.label} has no effect: no branch leads back"
        advice = "use type: agent-loop-decision if the loop body comes later"
        yield parsed.warning(
            "max-iterations-unused", message, parsed.node.at(COUNT).key_place, advice
        )
    for name in back if COUNT not in parsed.node.value and not step.limits_loops else ():
        message = (
            f'branch {quoted(name)} of {parsed.label} leads back to "{branches[name]}" '
            f"without {COUNT}"
        )
        place = parsed.node.at(BRANCHES, name).key_place
        yield parsed.warning("back-branch-unbounded", message, place, f"add {COUNT}: 3")


def _check_falls(view: FlowView, parsed: ParsedStep) -> Iterator[Diagnostic]:
    """Yield each branch after which another branch of the same router runs, too."""
    names: dict[str, str] = {}
    for name, target in parsed.step.branches.items():
        if target in view.by_id:
            names.setdefault(target, name)
    for target, name in names.items():
        others = names.keys() - {target}
        for ran, segment in view.ways.falls_from(target):
            met = next((step.step_id for step in segment if step.step_id in others), None)
            if met is None:
                continue
            if not _builds_on(view, segment, ran):
                message = (
                    f"after branch {quoted(name)} of {parsed.label} the step "
                    f'"{met}" of branch {quoted(names[met])} runs too'
                )
                yield parsed.warning("branch-falls-through", message, suggestion=TOGETHER)
            break


def _builds_on(view: FlowView, segment: Sequence[Step], ran: Sequence[Step]) -> bool:
    """Whether a segment uses what ran before it: it waits for it, or reads its results."""
    before = {step.step_id for step in ran}
    for step in segment:
        used = {*step.blocked_by, *view.reads.get(step.step_id, ()), *step.tested}
        if before & used:
            return True
    return False
