"""Where steps lead: whether the steps are there, and options and branches fit each other."""

from collections.abc import Iterator

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.reachability import BRANCHES, Route, branches_of, routes_of
from penstock.flows.checks.view import FlowView
from penstock.flows.definition import Fork, StepKind
from penstock.flows.reading.steps import ParsedStep, option_items
from penstock.manifest.authored_kinds import Item, meant, named_items
from penstock.manifest.fields import quoted

UNKNOWN = "unknown-step"
OPTIONS = "options"
BAD_BLOCKED_BY = "bad-blocked-by"
BLOCKED_BY = "blockedBy"


def check_targets(view: FlowView) -> Iterator[Diagnostic]:
    """Yield every jump to a step that is not there, and what is odd about branches."""
    for each in view.steps:
        for route in routes_of(each.step):
            if route.target and route.target not in view.by_id:
                yield _unknown(view, each, route)
        yield from _check_branches(each)
        if isinstance(each.step, Fork) and OPTIONS in each.node.value:
            yield from _check_options(view, each, each.step)


def _unknown(view: FlowView, each: ParsedStep, route: Route) -> Diagnostic:
    near = meant(view.near(route.target, view.by_id))
    if route.field == BRANCHES:
        said = f"branch {quoted(route.branch)} of {each.label} leads to unknown step"
        at = each.node.at(BRANCHES, route.branch).key_place
    else:
        said = f"{route.field} of {each.label} names unknown step"
        at = each.node.at(route.field).key_place
    return each.error(UNKNOWN, f"{said} {quoted(route.target)}", at, near)


def _check_branches(each: ParsedStep) -> Iterator[Diagnostic]:
    """Yield that a decision has nothing to decide."""
    if len(branches_of(each.step)) == 1 and not isinstance(each.step, Fork):
        said = f"{each.label} has one branch only"
        yield each.warning("single-branch", said, each.node.at(BRANCHES).key_place)


def _check_options(view: FlowView, each: ParsedStep, fork: Fork) -> Iterator[Diagnostic]:
    for option, at in option_items(each.node):
        if option not in fork.branches:
            said = f"option {quoted(option)} of {each.label} has no branch"
            near = meant(view.near(option, fork.branches)) or "add it under branches"
            yield each.error("option-without-branch", said, at, near)
    options = set(fork.options)
    for name in fork.branches:
        if name not in options:
            said = f"branch {quoted(name)} of {each.label} is not among its options"
            at = each.node.at(BRANCHES, name).key_place
            yield each.warning("branch-without-option", said, at)


def check_blocked_by(view: FlowView) -> Iterator[Diagnostic]:
    """Yield every name in a `blockedBy` that no step can wait for."""
    lines = {each.step_id: each.place.line for each in view.steps}
    order = {each.step_id: number for number, each in enumerate(view.steps)}
    for each in view.steps:
        for item in named_items(each.node.at(BLOCKED_BY)):
            blocker = view.by_id.get(item[0])
            if blocker is None or blocker is each:
                yield _unknown_blocker(view, each, item)
            elif order[blocker.step_id] > order[each.step_id]:
                yield _later_blocker(each, item, lines[blocker.step_id])
            elif blocker.step.kind is not StepKind.AGENT:
                yield _other_kind(each, item, blocker.step.kind)


def _unknown_blocker(view: FlowView, each: ParsedStep, item: Item) -> Diagnostic:
    name, at = item
    if name == each.step_id:
        return each.error(BAD_BLOCKED_BY, f"{each.label} is blocked by itself", at)
    said = f"{BLOCKED_BY} of {each.label} names unknown step {quoted(name)}"
    return each.error(BAD_BLOCKED_BY, said, at, meant(view.near(name, view.by_id)))


def _later_blocker(each: ParsedStep, item: Item, line: int) -> Diagnostic:
    name, at = item
    said = f'{BLOCKED_BY} of {each.label} names "{name}", which stands later (line {line})'
    own = each.label.removeprefix("step ")
    return each.error(BAD_BLOCKED_BY, said, at, f'move "{name}" before {own}')


def _other_kind(each: ParsedStep, item: Item, kind: StepKind) -> Diagnostic:
    name, at = item
    article = "an" if kind.startswith("a") else "a"
    said = f'{BLOCKED_BY} of {each.label} names "{name}", which is {article} {kind} step'
    return each.error(
        BAD_BLOCKED_BY, said, at, "it runs before everything below it anyway; remove it"
    )
