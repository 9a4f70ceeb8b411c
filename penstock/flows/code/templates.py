"""Drafts for the modules of code steps (`penstock flow generate`)."""

import json
import posixpath
import re
from collections.abc import Iterator

from msgspec.structs import replace

from penstock.core.text import one_line
from penstock.flows.checks.context import WRITTEN, CheckContext, module_of, stems
from penstock.flows.code.entry import type_of
from penstock.flows.definition import Flow
from penstock.flows.steps.code import Code, CodeDecision
from penstock.manifest.template import Placeholder, parse

DRAFT = ".default"
"""Suffix of draft files. Flows ignore drafts, and a draft never overwrites a module."""
_TYPED = (".mts", ".ts")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_TYPES = {
    "string": "string",
    "number": "number",
    "boolean": "boolean",
    "object": "Record<string, unknown>",
    "array": "unknown[]",
    None: "unknown",
}
_CONTEXT = """\
interface Context {
  readonly flowName: string;
  readonly stepId: string;
  readonly task: string;
  readonly cwd: string;
  /** Aborts shortly before the timeout. */
  readonly signal: AbortSignal;
  logger(message: unknown): void;
  setSummary(text: string): void;
}
"""


def drafts(flow: Flow, around: CheckContext) -> dict[str, str]:
    """Return a draft for each code step, by the path to write it to."""
    by_path: dict[str, str] = {}
    for step in flow.steps:
        places = stems(step, around) if isinstance(step, Code) else []
        if isinstance(step, Code) and places:
            file = places[0] if step.target is not None else f"{places[0]}.{WRITTEN}"
            by_path[f"{file}{DRAFT}"] = _draft(step, around.command, file)
    return by_path


def missing_drafts(flow: Flow, around: CheckContext) -> dict[str, str]:
    """Return a draft for each code step without a module, by the path to write it to."""
    absent = [each for each in flow.steps if isinstance(each, Code) and not module_of(each, around)]
    return drafts(replace(flow, steps=tuple(absent)), around)


def _draft(step: Code, command: str, file: str) -> str:
    name = posixpath.basename(file)
    is_typed = name.endswith(_TYPED)
    head = (
        f"// Step {step.step_id} of /{command}; to use it, call this file {name}.\n"
        "// `flo` and `fetch` are there; throw a FlowHardError to end the whole flow.\n\n"
    )
    types = f"{_interface('Input', _inputs(step))}\n{_CONTEXT}\n"
    types += f"{_interface('Result', _results(step))}\n"
    takes = "(input: Input, ctx: Context): Promise<Result>" if is_typed else "(input, ctx)"
    return (
        f"{head}{types if is_typed else ''}export default async function run{takes} {{\n"
        f'  throw new Error("step {step.step_id} is not written yet");\n'
        "}\n"
    )


def _inputs(step: Code) -> Iterator[str]:
    for name, template in step.inputs.items():
        pieces = parse(template).pieces
        is_typed = len(pieces) == 1 and isinstance(pieces[0], Placeholder)
        yield f"{_key(name)}: {'unknown' if is_typed else 'string'};"


def _results(step: Code) -> Iterator[str]:
    for output in step.outputs:
        if output.description:
            yield f"/** {one_line(output.description).replace('*/', '* /')} */"
        yield f"{_key(output.name)}: {_TYPES[type_of(output)]};"
    if isinstance(step, CodeDecision):
        yield f"branch: {' | '.join(map(json.dumps, step.branches))};"


def _interface(name: str, members: Iterator[str]) -> str:
    body = "".join(f"  {each}\n" for each in members)
    return f"interface {name} {{\n{body}}}\n"


def _key(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else json.dumps(name)
