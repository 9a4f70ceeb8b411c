"""Every flow of a project, read and checked in its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.core.diagnostics import Diagnostic
from penstock.flows.check import check_flow
from penstock.flows.checks.surroundings import Surroundings
from penstock.flows.definition import Flow
from penstock.flows.files import FlowFile, FlowRoot, read_flow_file
from penstock.flows.reading import ReadFlow, has_error


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFlow:
    """A flow of a file; with an error it is listed, and cannot run."""

    file: FlowFile
    read: ReadFlow
    diagnostics: Sequence[Diagnostic]

    @property
    def flow(self) -> Flow | None:
        """The flow, if it can run."""
        return None if has_error(self.diagnostics) else self.read.flow


def check_files(files: Mapping[str, FlowFile], project: Surroundings) -> Mapping[str, CheckedFlow]:
    """Return every flow by its command; `project` says which agents there are."""
    roots: dict[Path, FlowRoot] = {}
    checked: dict[str, CheckedFlow] = {}
    for command, file in files.items():
        root = roots.setdefault(file.root, FlowRoot(file.root))
        read = read_flow_file(file)
        found = check_flow(read, root.around(file, project))
        checked[command] = CheckedFlow(file=file, read=read, diagnostics=found)
    return checked
