"""The modules of code steps, and the commands of shell steps."""

import posixpath
from collections.abc import Iterator

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.context import FLOW, CheckContext
from penstock.flows.checks.view import FlowView
from penstock.flows.definition import Code, Shell, Step
from penstock.flows.reading_steps import ParsedStep

SUFFIXES = ("mts", "ts", "mjs", "js")
WRITTEN = "ts"
"""What `penstock flow generate` writes."""
FOLDER, OLD_FOLDER = "handlers", ".pi/flows/handlers"


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


def stems(step: Step, around: CheckContext) -> list[str]:
    """Return where the module of a step may lie, the best first; a target has its suffix."""
    target = step.target if isinstance(step, Code) else None
    folder, name = posixpath.split(around.file)
    if target is not None:
        found = [posixpath.join(folder, target), target]
        normal = [posixpath.normpath(each) for each in found if not target.startswith("/")]
        return [each for each in dict.fromkeys(normal) if each.split("/")[0] != ".."]
    if name == FLOW:
        return [posixpath.join(folder, step.step_id)]
    stem = name.rpartition(".")[0]
    command = around.command.replace(":", "/")
    return [
        posixpath.join(folder, FOLDER, stem, step.step_id),
        posixpath.join(OLD_FOLDER, command, step.step_id),
    ]


def module_of(step: Code, around: CheckContext) -> str | None:
    """Return the file of a step's module, or None if there is none."""
    suffixes = [""] if step.target is not None else [f".{each}" for each in SUFFIXES]
    places = (f"{stem}{suffix}" for stem in stems(step, around) for suffix in suffixes)
    return next((each for each in places if around.has_file(each)), None)


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
