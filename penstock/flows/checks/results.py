"""Checks the results that steps read: the step, the field, and the order."""

from collections.abc import Iterator, Mapping, Sequence

from penstock.core.diagnostics import Diagnostic
from penstock.core.events.flow_events import STANDARD_FIELDS
from penstock.core.text import cut
from penstock.flows.checks.context import FlowView, TemplateUse
from penstock.flows.parsed_flow import ParsedStep
from penstock.manifest.authored_kinds import meant
from penstock.manifest.template import Placeholder, ValueSource

LIST_CHARACTERS = 500
"""Limit on the names listed in a finding."""


def check_results(view: FlowView) -> Iterator[Diagnostic]:
    """Yield reads of results that do not exist, or may not exist yet."""
    for written in view.written:
        for ref in written.template.refs:
            if ref.kind is ValueSource.RESULT:
                yield from _check_ref(view, written, ref)
    for parsed in view.steps:
        yield from _check_order(view, parsed)


def _check_ref(view: FlowView, written: TemplateUse, ref: Placeholder) -> Iterator[Diagnostic]:
    """Yield a finding if the result or its field does not exist."""
    step, names = written.step, ref.names
    if unknown := unknown_result(view, names):
        message = f'template in {step.label} refers to unknown step "{unknown}"'
        near = meant(nearest_result(view, unknown))
        yield step.warning("template-unknown-step", message, view.place(written, ref), near)
    elif fields := lacking(view, names):
        message = f'"{names[1]}" is not an output of step "{names[0]}"'
        advice = meant(view.near(names[1], fields)) or cut(
            f"known: {', '.join(fields)}", LIST_CHARACTERS
        )
        yield step.warning("template-unknown-field", message, view.place(written, ref), advice)


def unknown_result(view: FlowView, names: Sequence[str]) -> str | None:
    """Return the id of the missing result, or None if it may exist."""
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


def nearest_result(view: FlowView, unknown: str) -> str | None:
    """Return the most similar id of a result."""
    first, _, rest = unknown.partition(".")
    if rest and first in view.subflows:
        near = view.near(rest, view.subflows[first].brings or ())
        return near and f"{first}.{near}"
    return view.near(unknown, view.results)


def lacking(view: FlowView, names: Sequence[str]) -> Mapping[str, None]:
    """Return the known fields of a step if the named field is not one of them, else nothing."""
    step = view.by_id.get(names[0])
    if step is None or len(names) == 1:
        return {}
    fields = view.fields_of(step.step)
    return {} if fields is None or names[1] in fields else fields


def _check_order(view: FlowView, parsed: ParsedStep) -> Iterator[Diagnostic]:
    for source, (written, ref) in view.reads.get(parsed.step_id, {}).items():
        reachability = view.reachability
        if reachability.may_precede(source, parsed.step_id):
            continue
        message = (
            f'{parsed.label} reads the result of "{source}", which is not sure to run before it'
        )
        advice = f'move "{source}" before {parsed.label.removeprefix("step ")}'
        if reachability.segments.index[source] == reachability.segments.index[parsed.step_id]:
            advice = f"add blockedBy: [{source}]"
        own = None if source == parsed.step_id else advice
        yield parsed.warning("template-order", message, view.place(written, ref), own)
