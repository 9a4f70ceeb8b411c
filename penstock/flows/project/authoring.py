"""Writes and removes flow files of an open project.

A flow is checked before it is written, and written whole or not at all (`ProjectFiles.write`). A
path that leads out of the project, into a hidden folder or into the folder of another flow is
refused; symbolic links are resolved first, so a link cannot lead a write elsewhere. `drafts` are
first versions of the modules of code steps (`penstock flow generate`). Tests:
tests/flows/project/test_authoring.py.
"""

import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from penstock.agents.agent_profile import Tier
from penstock.core.call_errors import CallError
from penstock.core.diagnostics import Diagnostic, Severity, has_error, in_file_order
from penstock.core.envelope import Json
from penstock.core.errors import ReadOnly
from penstock.core.exhaustion import is_full
from penstock.core.text import one_line
from penstock.flows.checks.context import FLOW, WRITTEN, CheckContext, module_of, stems
from penstock.flows.definition import Flow
from penstock.flows.project.files import (
    FOLDERS,
    FlowFile,
    FlowRoot,
    command_of,
    find_namesakes,
    hides,
    odd_name,
)
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.library import SUFFIXES
from penstock.flows.steps.code import Code, CodeDecision, type_of
from penstock.manifest.template import Placeholder, parse
from penstock.resources.project.files import ProjectFiles

WHERE = "a flow file must be below flows/ or .pi/flows/flows/ and end in .yaml or .yml"
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


class WrittenFlow(Struct, frozen=True, kw_only=True):
    """Result of a request to write a flow."""

    path: str
    """Relative to the project; the path as requested if it was refused."""
    command: str = ""
    is_written: bool = False
    diagnostics: Sequence[Diagnostic] = ()
    error: str = ""
    """Why it was not written, if the reason is not in its text."""
    is_full: bool = False
    """The disk is full."""

    def to_wire(self) -> Json:
        """Return the answer of `flow_write`."""
        error = {"error": self.error} if self.error else {}
        findings = [finding.to_finding() for finding in self.diagnostics]
        return {"written": self.is_written, "path": self.path, "diagnostics": findings, **error}


def write_flow(flows: ProjectFlows, path: str, content: str) -> WrittenFlow:
    """Write a flow of the project, in place of an existing file, unless it has errors."""
    files = ProjectFiles(flows.root)
    place = _place(files, path)
    if isinstance(place, WrittenFlow):
        return place
    file = FlowFile(command=command_of(place), path=place, root=flows.root, tier=Tier.LOCAL)
    findings = list(flows.check_text(file, content))
    if (odd := odd_name(file)) is not None:
        findings = [odd, *findings]
    if not has_error(findings):
        others = [*find_namesakes(file), *_swallowed(flows, file)]
        findings = in_file_order([*findings, *(_hidden_finding(file, other) for other in others)])
    written = WrittenFlow(path=place, command=file.command, diagnostics=findings)
    if has_error(findings):
        return written
    try:
        files.write(files.at(place), content.encode())
    except (CallError, UnicodeEncodeError) as error:
        return WrittenFlow(
            path=place, diagnostics=findings, error=str(error), is_full=is_full(error.__cause__)
        )
    return WrittenFlow(path=place, command=file.command, is_written=True, diagnostics=findings)


def remove_flow(file: FlowFile) -> None:
    """Delete the file of a flow. Raises ReadOnly for a flow of a package or a built-in one."""
    check_local(file)
    (file.root / file.path).unlink(missing_ok=True)


def check_local(file: FlowFile) -> None:
    """Raise ReadOnly for a flow of a package or a built-in one."""
    if file.tier is not Tier.LOCAL:
        raise ReadOnly(f'"/{file.command}" comes from a {file.tier} flow: write one of that name')


def drafts(flow: Flow, check_context: CheckContext) -> dict[str, str]:
    """Return a draft for each code step, by the path to write it to."""
    by_path: dict[str, str] = {}
    for step in flow.steps:
        places = stems(step, check_context) if isinstance(step, Code) else []
        if isinstance(step, Code) and places:
            file = places[0] if step.target is not None else f"{places[0]}.{WRITTEN}"
            by_path[f"{file}{DRAFT}"] = _draft(step, check_context.command, file)
    return by_path


def missing_drafts(flow: Flow, check_context: CheckContext) -> dict[str, str]:
    """Return a draft for each code step without a module, by the path to write it to."""
    absent = [
        each for each in flow.steps if isinstance(each, Code) and not module_of(each, check_context)
    ]
    return drafts(replace(flow, steps=tuple(absent)), check_context)


def _place(files: ProjectFiles, path: str) -> str | WrittenFlow:
    """Return the path of the file to write, relative to the project, or the refusal."""
    file_path = path if "/" in path else f"{FOLDERS[0]}/{path}"
    name = file_path.rpartition("/")[2]
    file_path = file_path if "." in name else f"{file_path}{SUFFIXES[0]}"
    try:
        place = files.at(file_path)
    except CallError:
        return WrittenFlow(path=path, error=f"path is outside the project: {path}")
    real = place.real
    is_named = name not in {"", *SUFFIXES} and real.endswith(SUFFIXES)
    is_below = any(real.startswith(f"{folder}/") for folder in FOLDERS)
    if files.is_hidden(real) and (is_named or not is_below):
        return WrittenFlow(path=path, error=f"path is outside the project: {path}")
    if not is_named or not is_below:
        return WrittenFlow(path=path, error=WHERE)
    if (flow := _inside(files.root, real)) is not None:
        message = f"{flow} is one flow: other files in its folder are not flows"
        return WrittenFlow(path=path, error=message)
    return real


def _swallowed(flows: ProjectFlows, file: FlowFile) -> Iterator[FlowFile]:
    """Yield the flows that stop being flows because their folder becomes one flow (`flow.yaml`)."""
    folder, _, name = file.path.rpartition("/")
    for other in flows.files().files.values() if name == FLOW and folder not in FOLDERS else ():
        is_inside = other.tier is Tier.LOCAL and other.path.startswith(f"{folder}/")
        if is_inside and other.path != file.path:
            yield other


def _hidden_finding(file: FlowFile, other: FlowFile) -> Diagnostic:
    """Return the warning for two files with one command: one of them is hidden."""
    is_first = hides(file, other) or other.command != file.command
    text = f"hides the one in {other.name}" if is_first else f"is hidden by the one in {other.name}"
    advice = None if is_first else f"write {other.name} instead, or choose another name"
    return Diagnostic(
        code="hidden",
        message=f'flow "/{file.command}" {text}',
        file=file.name,
        severity=Severity.WARNING,
        suggestion=advice,
    )


def _inside(root: Path, real: str) -> str | None:
    """Return the flow whose folder contains the path, unless it is that flow itself."""
    below = next(real.removeprefix(f"{each}/") for each in FOLDERS if real.startswith(f"{each}/"))
    start = real.removesuffix(below)
    parts, flow_root = below.split("/"), FlowRoot(root)
    for end in range(1, len(parts)):
        flow = f"{start}{'/'.join(parts[:end])}/{FLOW}"
        if flow != real and flow_root.has_file(flow):
            return flow
    return None


def _draft(step: Code, command: str, file: str) -> str:
    name = posixpath.basename(file)
    is_typed = name.endswith(_TYPED)
    head = (
        f"// Step {step.step_id} of /{command}; to use it, call this file {name}.\n"
        "// `flo` and `fetch` are available; throw a FlowHardError to end the whole flow.\n\n"
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
