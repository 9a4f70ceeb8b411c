"""Finds the files of the modules of code steps."""

import posixpath

from penstock.flows.checks.context import FLOW, CheckContext
from penstock.flows.definition import Code, Step

SUFFIXES = ("mts", "ts", "mjs", "js")
WRITTEN = "ts"
"""Suffix of the files that `penstock flow generate` writes."""
FOLDER, OLD_FOLDER = "handlers", ".pi/flows/handlers"


def stems(step: Step, around: CheckContext) -> list[str]:
    """Return the possible paths of a module, best first. Only a target has its suffix."""
    target = step.target if isinstance(step, Code) else None
    folder, name = posixpath.split(around.file)
    if target is not None:
        candidates = [posixpath.join(folder, target), target]
        normal = [posixpath.normpath(each) for each in candidates if not target.startswith("/")]
        return [each for each in dict.fromkeys(normal) if each.split("/")[0] != ".."]
    if name == FLOW:
        return [posixpath.join(folder, step.step_id)]
    stem = name.rpartition(".")[0]
    command = around.command.replace(":", "/")
    return [
        posixpath.join(folder, FOLDER, stem, step.step_id),
        posixpath.join(OLD_FOLDER, command, step.step_id),
    ]


def places(step: Step, around: CheckContext) -> list[str]:
    """Return the possible files of a step's module, best first."""
    if not isinstance(step, Code):
        return []
    suffixes = [""] if step.target is not None else [f".{each}" for each in SUFFIXES]
    return [f"{stem}{suffix}" for stem in stems(step, around) for suffix in suffixes]


def module_of(step: Code, around: CheckContext) -> str | None:
    """Return the file of a step's module, or None."""
    return next((each for each in places(step, around) if around.has_file(each)), None)
