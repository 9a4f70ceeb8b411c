"""Checks the modules of code steps, and the settings of shell steps."""

from collections.abc import Iterator

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.context import WRITTEN, module_of, stems
from penstock.flows.checks.view import FlowView
from penstock.flows.definition import Code, Shell
from penstock.flows.reading.steps import ParsedStep


def check_code(view: FlowView) -> Iterator[Diagnostic]:
    """Yield code steps without a working module, and warnings about shell steps."""
    has_reported = view.around.has_shell
    for parsed in view.steps:
        if isinstance(parsed.step, Code) and view.around.file and parsed.is_named:
            yield from _check_module(view, parsed, parsed.step)
        if not isinstance(parsed.step, Shell):
            continue
        if not has_reported:
            has_reported = True
            message = "shell steps are switched off in this project"
            advice = "set shell = true under [flows] in penstock.toml"
            yield parsed.warning("shell-off", message, suggestion=advice)
        if parsed.step.on_error is None:
            message = f"shell {parsed.label} has no on_error: a failing command ends the flow"
            yield parsed.warning("shell-without-on-error", message)


def _check_module(view: FlowView, parsed: ParsedStep, step: Code) -> Iterator[Diagnostic]:
    around = view.around
    place = parsed.node.at("target").key_place if step.target is not None else None
    path = module_of(step, around)
    if path is None:
        inside = stems(step, around)
        expected = next(iter(inside), step.target)
        suffix = f".{WRITTEN}" if step.target is None else ""
        message = f"no handler for {parsed.label}: expected {expected}{suffix}"
        advice = f"penstock flow generate {around.command}" if around.command else None
        advice = advice if inside else "name a file of the project: this path leaves it"
        yield parsed.warning("handler-missing", message, place, advice)
    elif fault := around.code_fault(path):
        message = f"{path}:{fault.line}:{fault.column}: {fault.problem}"
        yield parsed.error("handler-broken", message, place)
