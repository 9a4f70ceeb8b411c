"""Checks where control goes: jump targets, branches, `blockedBy`, endless loops, fall-throughs."""

from collections.abc import Iterator, Sequence

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.context import FlowView
from penstock.flows.definition import BRANCHES, ON_ERROR, Route, Step
from penstock.flows.parsed_flow import ParsedStep
from penstock.manifest.authored_kinds import Item, meant, named_items
from penstock.manifest.fields import quoted

UNKNOWN = "unknown-step"
BAD_BLOCKED_BY = "bad-blocked-by"
BLOCKED_BY = "blockedBy"
TOGETHER = (
    "put both branches into one run of agent steps, or close the first with on_complete "
    "or end: true"
)
COUNT = "max_iterations"


def check_targets(view: FlowView) -> Iterator[Diagnostic]:
    """Yield jumps to unknown steps, and decisions with only one branch."""
    for parsed in view.steps:
        for route in parsed.step.routes():
            if route.target and route.target not in view.by_id:
                yield _unknown(view, parsed, route)
        yield from _check_branches(parsed)


def _unknown(view: FlowView, parsed: ParsedStep, route: Route) -> Diagnostic:
    near = meant(view.near(route.target, view.by_id))
    if route.field == BRANCHES:
        message = f"branch {quoted(route.branch)} of {parsed.label} leads to unknown step"
        place = parsed.node.at(BRANCHES, route.branch).key_place
    else:
        message = f"{route.field} of {parsed.label} names unknown step"
        place = parsed.node.at(route.field).key_place
    return parsed.error(UNKNOWN, f"{message} {quoted(route.target)}", place, near)


def _check_branches(parsed: ParsedStep) -> Iterator[Diagnostic]:
    """Yield a warning for a decision with only one branch."""
    if len(parsed.step.branches) == 1 and not parsed.step.asks_person:
        message = f"{parsed.label} has one branch only"
        yield parsed.warning("single-branch", message, parsed.node.at(BRANCHES).key_place)


def check_blocked_by(view: FlowView) -> Iterator[Diagnostic]:
    """Yield names in `blockedBy` that a step cannot wait for."""
    lines = {parsed.step_id: parsed.place.line for parsed in view.steps}
    order = {parsed.step_id: number for number, parsed in enumerate(view.steps)}
    for parsed in view.steps:
        for item in named_items(parsed.node.at(BLOCKED_BY)):
            blocker = view.by_id.get(item[0])
            if blocker is None or blocker is parsed:
                yield _unknown_blocker(view, parsed, item)
            elif order[blocker.step_id] > order[parsed.step_id]:
                yield _later_blocker(parsed, item, lines[blocker.step_id])
            elif not blocker.step.is_agent_work:
                yield _other_kind(parsed, item, blocker.step.kind)


def _unknown_blocker(view: FlowView, parsed: ParsedStep, item: Item) -> Diagnostic:
    name, place = item
    if name == parsed.step_id:
        return parsed.error(BAD_BLOCKED_BY, f"{parsed.label} is blocked by itself", place)
    message = f"{BLOCKED_BY} of {parsed.label} names unknown step {quoted(name)}"
    return parsed.error(BAD_BLOCKED_BY, message, place, meant(view.near(name, view.by_id)))


def _later_blocker(parsed: ParsedStep, item: Item, line: int) -> Diagnostic:
    name, place = item
    message = f'{BLOCKED_BY} of {parsed.label} names "{name}", which comes later (line {line})'
    own = parsed.label.removeprefix("step ")
    return parsed.error(BAD_BLOCKED_BY, message, place, f'move "{name}" before {own}')


def _other_kind(parsed: ParsedStep, item: Item, kind: str) -> Diagnostic:
    name, place = item
    article = "an" if kind.startswith("a") else "a"
    message = f'{BLOCKED_BY} of {parsed.label} names "{name}", which is {article} {kind} step'
    return parsed.error(
        BAD_BLOCKED_BY, message, place, "it runs before everything below it anyway; remove it"
    )


def check_loops(view: FlowView) -> Iterator[Diagnostic]:
    """Yield loops without a limit, and steps that run although another branch was chosen."""
    for parsed in view.steps:
        for route in view.reachability.routes(parsed.step):
            yield from _check_route(view, parsed, route)
        if parsed.step.has_branches:
            yield from _check_count(view, parsed)
            yield from _check_falls(view, parsed)


def _check_route(view: FlowView, parsed: ParsedStep, route: Route) -> Iterator[Diagnostic]:
    reachability, step = view.reachability, parsed.step
    is_back = reachability.is_back(route.target, step.step_id)
    place = parsed.node.at(route.field).key_place
    if not route.is_limited and is_back and reachability.is_unbounded(route.target, step.step_id):
        message = (
            f'{route.field} of {parsed.label} leads back to "{route.target}" '
            "and nothing bounds the loop"
        )
        yield parsed.warning(
            "route-unbounded", message, place, "put an agent-loop-decision in the loop"
        )
    is_near = reachability.segments.index[route.target] == reachability.segments.index[step.step_id]
    if (
        route.field == ON_ERROR
        and is_near
        and not is_back
        and reachability.runs_anyway(route.target)
    ):
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
        if target in view.by_id and view.reachability.is_back(target, step.step_id)
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
        for ran, segment in view.reachability.falls_from(target):
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
