"""The results that steps read: whether there is such a step, such a field, and a way between."""

from collections.abc import Iterator, Mapping, Sequence

from penstock.core.diagnostics import Diagnostic
from penstock.core.events.step import STANDARD_FIELDS
from penstock.core.text import cut
from penstock.flows.checks.view import FlowView, TemplateUse
from penstock.flows.definition import Conditional
from penstock.flows.reading.steps import ParsedStep
from penstock.manifest.authored_kinds import meant
from penstock.manifest.fields import quoted
from penstock.manifest.template import Placeholder, ValueSource

CHECK = "check"
LIST_CHARACTERS = 500
"""Of all the names that a finding offers."""


def check_results(view: FlowView) -> Iterator[Diagnostic]:
    """Yield every result that is read in vain, or too early."""
    for written in view.written:
        for ref in written.template.refs:
            if ref.kind is ValueSource.RESULT:
                yield from _check_ref(view, written, ref)
    for each in view.steps:
        yield from _check_order(view, each)
        if isinstance(each.step, Conditional) and each.step.check:
            yield from _check_tested(view, each, each.step.check)


def _check_ref(view: FlowView, written: TemplateUse, ref: Placeholder) -> Iterator[Diagnostic]:
    """Yield that a result is not there, or has no such field."""
    step, names = written.step, ref.names
    if unknown := _unknown(view, names):
        said = f'template in {step.label} refers to unknown step "{unknown}"'
        near = meant(_near(view, unknown))
        yield step.warning("template-unknown-step", said, view.place(written, ref), near)
    elif fields := _lacking(view, names):
        said = f'"{names[1]}" is not an output of step "{names[0]}"'
        advice = meant(view.near(names[1], fields)) or cut(
            f"known: {', '.join(fields)}", LIST_CHARACTERS
        )
        yield step.warning("template-unknown-field", said, view.place(written, ref), advice)


def _unknown(view: FlowView, names: Sequence[str]) -> str | None:
    """Return the id of a result that nothing leaves, if that is what is named."""
    first = names[0]
    subflow = view.subflows.get(first)
    if subflow is None:
        if view.source(first) is None:
            return None if view.is_open else first
        return ".".join(names[:-1]) if len(names) > len(("step", "field")) else None
    brings = subflow.brings
    if brings is None or len(names) == 1 or names[1] in {*brings, *STANDARD_FIELDS}:
        return None
    is_field = len(names) == len(("step", "field"))
    return None if is_field else ".".join(names[:2])


def _near(view: FlowView, unknown: str) -> str | None:
    first, _, rest = unknown.partition(".")
    if rest and first in view.subflows:
        near = view.near(rest, view.subflows[first].brings or ())
        return near and f"{first}.{near}"
    return view.near(unknown, view.results)


def _lacking(view: FlowView, names: Sequence[str]) -> Mapping[str, None]:
    """Return what a step leaves, if a field is named that is not among it."""
    step = view.by_id.get(names[0])
    if step is None or len(names) == 1:
        return {}
    fields = view.fields_of(step.step)
    return {} if fields is None or names[1] in fields else fields


def _check_order(view: FlowView, each: ParsedStep) -> Iterator[Diagnostic]:
    for source, (written, ref) in view.reads.get(each.step_id, {}).items():
        ways = view.ways
        if ways.may_precede(source, each.step_id):
            continue
        said = f'{each.label} reads the result of "{source}", which is not sure to run before it'
        advice = f'move "{source}" before {each.label.removeprefix("step ")}'
        if ways.segments.of[source] == ways.segments.of[each.step_id]:
            advice = f"add blockedBy: [{source}]"
        own = None if source == each.step_id else advice
        yield each.warning("template-order", said, view.place(written, ref), own)


def _check_tested(view: FlowView, each: ParsedStep, check: str) -> Iterator[Diagnostic]:
    """Yield that a conditional looks at what is not there."""
    at = each.node.at(CHECK).key_place
    step_id, _, field = (check, "", "") if check in view.by_id else check.rpartition(".")
    step_id = step_id or check
    if unknown := _unknown(view, [*step_id.split("."), *([field] if field else [])]):
        said = f"check of {each.label} refers to unknown step {quoted(unknown)}"
        yield each.warning("check-unknown-step", said, at, meant(_near(view, unknown)))
    elif field and _lacking(view, [step_id, field]):
        said = f'"{field}" is not an output of step "{step_id}"; its full output is tested'
        yield each.warning("check-unknown-field", said, at)
