"""The modules of code steps, and the commands of shell steps."""

from collections.abc import Iterator

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.modules import WRITTEN, module_of, stems
from penstock.flows.checks.view import FlowView
from penstock.flows.definition import Code, Shell
from penstock.flows.reading.steps import ParsedStep


def check_code(view: FlowView) -> Iterator[Diagnostic]:
    """Yield code steps without a module that works, and what shell steps come to."""
    has_told = view.around.has_shell
    for each in view.steps:
        if isinstance(each.step, Code) and view.around.file and each.is_named:
            yield from _check_module(view, each, each.step)
        if not isinstance(each.step, Shell):
            continue
        if not has_told:
            has_told = True
            said = "shell steps are switched off in this project"
            advice = "set shell = true under [flows] in penstock.toml"
            yield each.warning("shell-off", said, suggestion=advice)
        if each.step.on_error is None:
            said = f"shell {each.label} has no on_error: a failing command ends the flow"
            yield each.warning("shell-without-on-error", said)


def _check_module(view: FlowView, each: ParsedStep, step: Code) -> Iterator[Diagnostic]:
    around = view.around
    at = each.node.at("target").key_place if step.target is not None else None
    path = module_of(step, around)
    if path is None:
        inside = stems(step, around)
        wanted = next(iter(inside), step.target)
        suffix = f".{WRITTEN}" if step.target is None else ""
        said = f"no handler for {each.label}: expected {wanted}{suffix}"
        advice = f"penstock flow generate {around.command}" if around.command else None
        advice = advice if inside else "name a file of the project: this path leaves it"
        yield each.warning("handler-missing", said, at, advice)
    elif fault := around.code_fault(path):
        said = f"{path}:{fault.line}:{fault.column}: {fault.problem}"
        yield each.error("handler-broken", said, at)
