"""What steps wait for: earlier agent steps, and nothing else."""

from collections.abc import Iterator

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.view import FlowView
from penstock.flows.definition import StepKind
from penstock.flows.reading.steps import ParsedStep
from penstock.manifest.authored_kinds import Item, meant, named_items
from penstock.manifest.fields import quoted

CODE = "bad-blocked-by"
FIELD = "blockedBy"


def check_blocked_by(view: FlowView) -> Iterator[Diagnostic]:
    """Yield every name in a `blockedBy` that no step can wait for."""
    lines = {each.step_id: each.place.line for each in view.steps}
    order = {each.step_id: number for number, each in enumerate(view.steps)}
    for each in view.steps:
        for item in named_items(each.node.at(FIELD)):
            blocker = view.by_id.get(item[0])
            if blocker is None or blocker is each:
                yield _odd(view, each, item)
            elif order[blocker.step_id] > order[each.step_id]:
                yield _later(each, item, lines[blocker.step_id])
            elif blocker.step.kind is not StepKind.AGENT:
                yield _other_kind(each, item, blocker.step.kind)


def _odd(view: FlowView, each: ParsedStep, item: Item) -> Diagnostic:
    name, at = item
    if name == each.step_id:
        return each.error(CODE, f"{each.label} is blocked by itself", at)
    said = f"{FIELD} of {each.label} names unknown step {quoted(name)}"
    return each.error(CODE, said, at, meant(view.near(name, view.by_id)))


def _later(each: ParsedStep, item: Item, line: int) -> Diagnostic:
    name, at = item
    said = f'{FIELD} of {each.label} names "{name}", which stands later (line {line})'
    own = each.label.removeprefix("step ")
    return each.error(CODE, said, at, f'move "{name}" before {own}')


def _other_kind(each: ParsedStep, item: Item, kind: StepKind) -> Diagnostic:
    name, at = item
    article = "an" if kind.startswith("a") else "a"
    said = f'{FIELD} of {each.label} names "{name}", which is {article} {kind} step'
    return each.error(CODE, said, at, "it runs before everything below it anyway; remove it")
