"""The flows of a project on disk: the FlowLibrary that runs use, and the project's constants.

Files are read when they are needed, so an edit takes effect with the next run without a restart.
A run itself stores what it started with (`penstock.flows.project.library`).
`read_constants` reads the default values of `${{config.KEY}}` from `.pi/flows/config.yaml`. Tests:
tests/flows/project/test_flows.py.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic, errors_of
from penstock.core.late import late
from penstock.core.text import one_line
from penstock.flows.checks.context import CheckContext, places
from penstock.flows.definition import Flow, RunInput
from penstock.flows.parsed_flow import ParsedFlow
from penstock.flows.parsing import flow_of, read_flow
from penstock.flows.project.files import (
    BUILT_IN,
    BUILT_IN_HOME,
    HIDDEN,
    FlowFile,
    FlowIndex,
    FlowRoot,
    built_in_flows,
    file_at,
    find_flows,
    read_flow_file,
)
from penstock.flows.project.library import (
    SUFFIXES,
    FlowSource,
    check_size,
    is_glob,
    matches,
    places_of,
    referred_texts,
    unknown_flow,
)
from penstock.flows.project.modules import ModuleLoader
from penstock.flows.steps.kind import CONFIG
from penstock.manifest.document import Document, SourceRange
from penstock.manifest.fields import Invalid, Node, described
from penstock.manifest.files import NO_FOLDER, UnreadReason, read_bounded, walk
from penstock.manifest.yaml_document import parse_yaml
from penstock.resources.project.globs import glob

MAX_SEEN = 20_000
"""Limit on the files visited below the literal beginning of a glob."""
CheckFlow = Callable[[ParsedFlow, CheckContext], Sequence[Diagnostic]]
CONSTANTS_FILE = ".pi/flows/config.yaml"
CONSTANTS_BYTES = 1024 * 1024
_TOP = SourceRange(line=1, column=1)


class FlowSummary(Struct, frozen=True, kw_only=True):
    """A flow as lists show it."""

    file: FlowFile
    flow: Flow | None
    """None if the file cannot be parsed."""
    diagnostics: Sequence[Diagnostic]

    @property
    def description(self) -> str:
        """The flow's description, in one line."""
        return one_line(self.flow.description) if self.flow is not None else ""

    @property
    def errors(self) -> int:
        """Number of errors. A flow with errors cannot run."""
        return len(errors_of(self.diagnostics))

    def to_wire(self) -> dict[str, Any]:
        """Return the entry for programs."""
        part = {
            "name": self.file.command,
            "description": self.description,
            "source": self.file.tier.value,
            "path": self.file.path,
            "taskRequired": False,
            "stepCount": 0,
            "valid": not self.errors,
        }
        return part if self.flow is None else part | _declared(self.flow)


class ProjectFlows:
    """FlowLibrary of a project's folder and its packages. Reads files on demand."""

    def __init__(
        self,
        root: Path,
        check_context: Callable[[], CheckContext],
        *,
        packages: Sequence[Path] = (),
        modules: ModuleLoader | None = None,
        max_seen: int = MAX_SEEN,
    ) -> None:
        self.root = root
        self._base_context = check_context
        """Returns the current agents and everything else that a flow may name."""
        self._packages = packages
        self._modules = modules
        """Reads the modules of code steps; None if there is no sandbox."""
        self._max_seen = max_seen

    def find(self, command: str) -> FlowSource:
        """Return a flow by its command, with the errors that prevent a run."""
        flows = self.files().files
        if command not in flows:
            raise unknown_flow(command, flows)
        file = flows[command]
        root = FlowRoot(file.root, file.home)
        errors = errors_of(_findings(_read(file, root), self._check_context(file, root)))
        source = self._source(file, root)
        return replace(source, errors=[*errors, *source.errors])

    def files(self) -> FlowIndex:
        """Return every flow by its command, and the problems with names."""
        result = find_flows(self.root, self._packages)
        result.files = built_in_flows().files | result.files
        return result

    def check(self, file: FlowFile) -> tuple[ParsedFlow, Sequence[Diagnostic]]:
        """Return a flow with all its findings."""
        root = FlowRoot(file.root, file.home)
        read = _read(file, root)
        return read, _findings(read, self._check_context(file, root))

    def list(self) -> Sequence[FlowSummary]:
        """Return a summary of every flow, sorted by command."""
        return [self.summary(file)[0] for _, file in sorted(self.files().files.items())]

    def summary(self, file: FlowFile) -> tuple[FlowSummary, ParsedFlow]:
        """Return the summary of a flow, and the flow."""
        read, findings = self.check(file)
        return FlowSummary(file=file, flow=read.flow, diagnostics=findings), read

    def check_text(self, file: FlowFile, content: str) -> Sequence[Diagnostic]:
        """Return all findings for a text that may become the file of a flow."""
        check_context = self._check_context(file, FlowRoot(file.root, file.home))
        return _findings(read_flow(content, file.name), check_context)

    def refer(self, source: FlowSource, path: str) -> Sequence[FlowSource] | None:
        """Return the flows that a path in a flow refers to."""
        places = places_of(path, source.path)
        if places is None:
            return None
        folder = self._folder(source)
        if folder is None:
            return ()
        root = FlowRoot(folder, source.root)
        for place in places:
            candidates = self._files(folder, place) if is_glob(place) else [place]
            if candidates is None:
                return [_too_many(source, place, self._max_seen)]
            flows = [each for each in matches(place, candidates) if root.flow_at(each) is not None]
            if flows:
                return [self._source(file_at(each, folder, source.root), root) for each in flows]
        return ()

    def reached(self) -> set[str]:
        """Return every path of the project whose content affects a flow, existing or not.

        That is: the flows, the flows they refer to, and the modules of code steps with their
        imports.
        """
        result: set[str] = set()
        for file in find_flows(self.root).files.values():
            root = FlowRoot(file.root, file.home)
            result.update(self._source(file, root).texts)
            flow, check_context = (
                _read(file, root).flow,
                root.check_context(file, self._base_context()),
            )
            if flow is not None:
                result.update(place for step in flow.steps for place in places(step, check_context))
        return result

    def faults(self, source: FlowSource) -> Sequence[Diagnostic]:
        """Return the errors that prevent a run, judged by the texts stored with the flow."""
        folder = self._folder(source)
        if folder is None:
            return errors_of(read_flow(source.text, source.name).findings)
        root = FlowRoot(folder, source.root, source.texts)
        file = file_at(source.path, folder, source.root)
        check_context = replace(
            root.check_context(file, self._base_context()), has_file=source.texts.__contains__
        )
        if self._modules is not None:
            fault = partial(self._modules.find_fault_in, texts=source.texts)
            check_context = replace(check_context, code_fault=fault)
        return errors_of(_findings(_read(file, root), check_context))

    def _folder(self, source: FlowSource) -> Path | None:
        """Return the folder below which a flow and its references lie; None if it is gone."""
        homes = {each.as_posix(): each for each in self._packages}
        return (homes | {"": self.root, BUILT_IN_HOME: BUILT_IN}).get(source.root)

    def _check_context(self, file: FlowFile, root: FlowRoot) -> CheckContext:
        check_context = root.check_context(file, self._base_context())
        if self._modules is None:
            return check_context
        return replace(check_context, code_fault=partial(self._modules.find_fault, root=file.root))

    def _source(self, file: FlowFile, root: FlowRoot) -> FlowSource:
        """Return a flow with everything that its run stores."""
        texts = referred_texts(file.path, root.text_at) or {file.path: _read(file, root).text}
        errors = check_size(texts, file.name)
        for path, text in list(texts.items()):
            flow = flow_of(text, path)
            if self._modules is not None and flow is not None and not errors:
                texts |= self._modules.texts(flow, file_at(path, file.root, file.home))
        return FlowSource(root=file.home, path=file.path, texts=texts, errors=errors)

    def _files(self, folder: Path, place: str) -> Sequence[str] | None:
        """Return the flow files that a glob may match; None if too many files must be visited."""
        starts = [glob(place).literal]
        if starts == [""] and folder == self.root:
            starts.append(HIDDEN)
        below = (f"{start}/{each}" for start in starts for each in walk(folder / start))
        seen = list(islice(below, self._max_seen + 1))
        if len(seen) > self._max_seen:
            return None
        return [each.removeprefix("/") for each in seen if each.endswith(SUFFIXES)]


class Constants(Struct, frozen=True, kw_only=True):
    """The constants of a project. Invalid entries are reported and left out."""

    values: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Sequence[Diagnostic] = ()


def read_constants(root: Path) -> Constants:
    """Read the constants. Never raises; a missing file means none."""
    content = read_bounded(root / CONSTANTS_FILE, CONSTANTS_BYTES)
    if isinstance(content, UnreadReason):
        return Constants() if content.is_missing else _refused(content.code, content.message)
    # A link may lead out of the project: what lies there is not the project's to read.
    if not Path(os.path.realpath(root / CONSTANTS_FILE)).is_relative_to(os.path.realpath(root)):
        return _refused("file-unreadable", "the file is outside the project")
    try:
        document = parse_yaml(content.decode(), CONSTANTS_FILE)
    except UnicodeDecodeError as error:
        return _refused("file-encoding", f"not UTF-8 at byte {error.start}")
    return _read_constants(document)


def _declared(flow: Flow) -> dict[str, Any]:
    part: dict[str, Any] = {"taskRequired": flow.needs_task, "stepCount": len(flow.steps)}
    if flow.task_prompt is not None:
        part["taskPrompt"] = flow.task_prompt
    return part | ({"inputs": [_input(each) for each in flow.inputs]} if flow.inputs else {})


def _input(item: RunInput) -> dict[str, Any]:
    part = {
        "name": item.name,
        "type": item.value_type.value,
        "required": item.is_required,
        "description": item.description,
    }
    return part if item.default is None else part | {"default": item.default}


def _read(file: FlowFile, root: FlowRoot) -> ParsedFlow:
    """Return a flow as its root has it. A missing file gives a flow with that finding."""
    return root.flow_at(file.path) or read_flow_file(file)


def _findings(read: ParsedFlow, check_context: CheckContext) -> Sequence[Diagnostic]:
    """Return all findings for a flow."""
    # `late`: the checks take memory that a server without new flows never needs.
    check: CheckFlow = late("penstock.flows.checking:check_flow")
    return check(read, check_context)


def _too_many(source: FlowSource, place: str, limit: int) -> FlowSource:
    message = f'"{place}" visits more than {limit} files: start it with a smaller folder'
    error = Diagnostic(code="too-many-files", message=message, file=source.name)
    return FlowSource(root=source.root, path=place, texts={place: ""}, errors=[error])


def _read_constants(document: Document) -> Constants:
    value = document.value
    if not document.problems and not isinstance(value, dict | None):
        document.problem(
            "yaml-not-mapping", f"must be {CONFIG.expected}, found {described(value)}", _TOP
        )
    if document.problems:
        return Constants(diagnostics=document.problems)
    values = CONFIG.read(Node(document=document, home=NO_FOLDER, what="the file", value=value))
    plain = {} if isinstance(values, Invalid) else values
    return Constants(values=plain, diagnostics=document.problems)


def _refused(code: str, message: str) -> Constants:
    document = Document(file=CONSTANTS_FILE)
    document.problem(code, message, _TOP)
    return Constants(diagnostics=document.problems)
