"""Checks the templates of steps: syntax, and whether each placeholder names something."""

from collections.abc import Iterator

from penstock.core.diagnostics import Diagnostic, nearest
from penstock.core.text import cut
from penstock.flows.checks.context import FlowView, TemplateUse
from penstock.flows.definition import Step
from penstock.manifest.authored_kinds import meant
from penstock.manifest.fields import FOUND_CHARACTERS
from penstock.manifest.template import (
    CLOSING,
    OPENING,
    BrokenPlaceholder,
    Placeholder,
    PlaceholderFault,
    ValueSource,
    single_braces,
)

KNOWN = (
    'known: task, input, result, loop, fork, config, flow.input; write "$${{" for a literal "${{"'
)


def check_templates(view: FlowView) -> Iterator[Diagnostic]:
    """Yield broken placeholders, and those that name nothing."""
    for written in view.written:
        for broken in written.template.broken:
            yield _broken(view, written, broken)
        for ref in written.template.refs:
            yield from _check_ref(view, written, ref)
        yield from _check_single(view, written)
        if written.step.step.is_shell_text and not written.is_input:
            yield from _check_quotes(view, written)


def shown(piece: Placeholder | BrokenPlaceholder) -> str:
    """Return a placeholder as messages show it."""
    return f'"{cut(piece.text, FOUND_CHARACTERS)}"'


def _broken(view: FlowView, written: TemplateUse, broken: BrokenPlaceholder) -> Diagnostic:
    label = written.step.label
    message = {
        PlaceholderFault.UNCLOSED: f'"{OPENING}" in {label} is not closed on its line',
        PlaceholderFault.TOO_DEEP: f"template {shown(broken)} in {label} has too many parts",
        PlaceholderFault.UNKNOWN: f"unknown template {shown(broken)} in {label}",
    }[broken.fault]
    advice = _advice(view, broken) if broken.fault is PlaceholderFault.UNKNOWN else None
    return written.step.error(broken.fault.value, message, view.place(written, broken), advice)


def _advice(view: FlowView, broken: BrokenPlaceholder) -> str:
    inside = broken.text.removeprefix(OPENING).removesuffix(CLOSING).strip(" \t")
    first, _, rest = inside.partition(".")
    if first in view.by_id:
        return f'did you mean "${{{{result.{inside}}}}}"?'
    if first == "inputs" and rest:
        return f'did you mean "${{{{input.{rest}}}}}"?'
    near = nearest(inside, [ValueSource.TASK])
    return meant(near and f"${{{{{near}}}}}") or KNOWN


def _check_ref(view: FlowView, written: TemplateUse, ref: Placeholder) -> Iterator[Diagnostic]:
    step, name = written.step, ref.names[0] if ref.names else ""
    where = f"template {shown(ref)} in {step.label} names"
    match ref.kind:
        case ValueSource.INPUT if written.is_input:
            message = f"inputs of {step.label} cannot read {shown(ref)}"
            yield step.error("template-input-in-inputs", message, view.place(written, ref))
        case ValueSource.INPUT if name not in step.step.inputs:
            message = f"{where} an input that is not wired"
            yield step.warning("template-input-not-wired", message, view.place(written, ref))
        case ValueSource.FLOW_INPUT if name not in view.read.inputs:
            message = f"{where} a flow input that is not declared"
            yield step.warning("template-flow-input", message, view.place(written, ref))
        case ValueSource.LOOP | ValueSource.FORK:
            yield from _check_named(view, written, ref)
        case _:
            pass


def _check_named(view: FlowView, written: TemplateUse, ref: Placeholder) -> Iterator[Diagnostic]:
    """Yield a finding if the named step is not a loop, or not a fork."""
    name = ref.names[0]
    named, near = view.by_id.get(name), None
    if named is None:
        code, near = "template-unknown-step", meant(view.near(name, view.by_id))
        message = f'template in {written.step.label} refers to unknown step "{name}"'
    elif ref.kind is ValueSource.FORK and not named.step.asks_person:
        code, message = "template-not-fork", f'"{name}" is not a fork step'
    elif ref.kind is ValueSource.LOOP and not _loops(view, named.step):
        code, message = "template-not-loop", f'"{name}" is not a loop step'
    else:
        return
    yield written.step.warning(code, message, view.place(written, ref), near)


def _loops(view: FlowView, step: Step) -> bool:
    """Whether a step counts iterations."""
    known = (each for each in step.branches.values() if each in view.by_id)
    is_back = any(view.reachability.is_back(each, step.step_id) for each in known)
    return step.counts_visits or step.max_iterations is not None or is_back


def _check_single(view: FlowView, written: TemplateUse) -> Iterator[Diagnostic]:
    for braces in single_braces(str(written.node.value)):
        message = f'"{cut(braces.text, FOUND_CHARACTERS)}" in {written.step.label} is not expanded'
        place = view.place(written, braces.offset)
        yield written.step.warning(
            "template-single-brace", message, place, f'write "{braces.meant}"'
        )


def _check_quotes(view: FlowView, written: TemplateUse) -> Iterator[Diagnostic]:
    """Yield placeholders inside single quotes: the shell would not expand their variables."""
    places = {ref.offset: ref for ref in written.template.refs}
    quote, is_escaped = "", False
    for offset, character in enumerate(str(written.node.value)):
        if offset in places and quote == "'":
            message = (
                f"template inside single quotes in {written.step.label} "
                "is not expanded by the shell"
            )
            place = view.place(written, places[offset])
            yield written.step.warning(
                "template-in-single-quotes", message, place, "use double quotes"
            )
        if is_escaped:
            is_escaped = False
        elif character == "\\" and quote != "'":
            is_escaped = True
        elif character in {"'", '"'} and quote in {"", character}:
            quote = "" if quote else character
