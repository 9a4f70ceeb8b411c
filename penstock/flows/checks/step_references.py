"""Checks the steps that a step names: jump targets, branches, options, and `blockedBy`."""

from collections.abc import Iterator

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.view import FlowView
from penstock.flows.definition import BRANCHES, Route
from penstock.flows.parsed import ParsedStep
from penstock.manifest.authored_kinds import Item, meant, named_items
from penstock.manifest.fields import quoted

UNKNOWN = "unknown-step"
BAD_BLOCKED_BY = "bad-blocked-by"
BLOCKED_BY = "blockedBy"


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
