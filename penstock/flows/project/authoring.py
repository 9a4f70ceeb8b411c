"""Flows that are written and removed while a project is open: checked first, then whole or not."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from penstock.agents.agent_profile import Tier
from penstock.core.call_errors import CallError
from penstock.core.diagnostics import Diagnostic, Severity, has_error, in_file_order
from penstock.core.envelope import Json
from penstock.core.errors import ReadOnly
from penstock.flows.checks.context import FLOW
from penstock.flows.project.files import (
    FOLDERS,
    SUFFIXES,
    FlowFile,
    FlowRoot,
    command_of,
    find_namesakes,
    hides,
    odd_name,
)
from penstock.flows.project.flows import ProjectFlows
from penstock.resources.project.files import ProjectFiles
from penstock.store.failures import is_full

WHERE = "a flow file must be below flows/ or .pi/flows/flows/ and end in .yaml or .yml"


class WrittenFlow(Struct, frozen=True, kw_only=True):
    """What became of a flow that was to be written."""

    path: str
    """Relative to the project; as it was given, if that leads nowhere."""
    command: str = ""
    is_written: bool = False
    diagnostics: Sequence[Diagnostic] = ()
    error: str = ""
    """Why it was not written, other than by its text."""
    is_full: bool = False
    """Whether the disk has no space for it."""

    def to_wire(self) -> Json:
        """Return what `flow_write` answers."""
        told = {"error": self.error} if self.error else {}
        found = [each.to_finding() for each in self.diagnostics]
        return {"written": self.is_written, "path": self.path, "diagnostics": found, **told}


def write_flow(flows: ProjectFlows, path: str, content: str) -> WrittenFlow:
    """Write a flow in the project, in the place of one that is there, unless it has errors."""
    files = ProjectFiles(flows.root)
    place = _place(files, path)
    if isinstance(place, WrittenFlow):
        return place
    file = FlowFile(command=command_of(place), path=place, root=flows.root, tier=Tier.LOCAL)
    found = list(flows.check_text(file, content))
    if (odd := odd_name(file)) is not None:
        found = [odd, *found]
    if not has_error(found):
        others = [*find_namesakes(file), *_swallowed(flows, file)]
        found = in_file_order([*found, *(_beside(file, each) for each in others)])
    written = WrittenFlow(path=place, command=file.command, diagnostics=found)
    if has_error(found):
        return written
    try:
        files.write(files.at(place), content.encode())
    except (CallError, UnicodeEncodeError) as error:
        return WrittenFlow(
            path=place, diagnostics=found, error=str(error), is_full=is_full(error.__cause__)
        )
    return WrittenFlow(path=place, command=file.command, is_written=True, diagnostics=found)


def remove_flow(file: FlowFile) -> None:
    """Remove the file of a flow. Raises ReadOnly for one that is not the project's own."""
    check_local(file)
    (file.root / file.path).unlink(missing_ok=True)


def check_local(file: FlowFile) -> None:
    """Raise ReadOnly for a flow that is not the project's own."""
    if file.tier is not Tier.LOCAL:
        raise ReadOnly(f'"/{file.command}" comes from a {file.tier} flow: write one of that name')


def _place(files: ProjectFiles, path: str) -> str | WrittenFlow:
    """Return where a flow is to lie, from the project's folder, or why it cannot."""
    wanted = path if "/" in path else f"{FOLDERS[0]}/{path}"
    name = wanted.rpartition("/")[2]
    wanted = wanted if "." in name else f"{wanted}{SUFFIXES[0]}"
    try:
        place = files.at(wanted)
    except CallError:
        return WrittenFlow(path=path, error=f"path is outside the project: {path}")
    real = place.real
    is_named = name not in {"", *SUFFIXES} and real.endswith(SUFFIXES)
    is_below = any(real.startswith(f"{each}/") for each in FOLDERS)
    if files.is_hidden(real) and (is_named or not is_below):
        return WrittenFlow(path=path, error=f"path is outside the project: {path}")
    if not is_named or not is_below:
        return WrittenFlow(path=path, error=WHERE)
    if (flow := _inside(files.root, real)) is not None:
        said = f"{flow} is a flow of its own: nothing else in its folder is one"
        return WrittenFlow(path=path, error=said)
    return real


def _swallowed(flows: ProjectFlows, file: FlowFile) -> Iterator[FlowFile]:
    """Yield the flows of a folder that becomes one flow itself."""
    folder, _, name = file.path.rpartition("/")
    for other in flows.files().files.values() if name == FLOW and folder not in FOLDERS else ():
        is_inside = other.tier is Tier.LOCAL and other.path.startswith(f"{folder}/")
        if is_inside and other.path != file.path:
            yield other


def _beside(file: FlowFile, other: FlowFile) -> Diagnostic:
    """Return what is said of a flow that hides another file of the project, or is hidden by it."""
    is_first = hides(file, other) or other.command != file.command
    said = f"hides the one in {other.name}" if is_first else f"is hidden by the one in {other.name}"
    advice = None if is_first else f"write {other.name} instead, or choose another name"
    return Diagnostic(
        code="hidden",
        message=f'flow "/{file.command}" {said}',
        file=file.name,
        severity=Severity.WARNING,
        suggestion=advice,
    )


def _inside(root: Path, real: str) -> str | None:
    """Return the flow whose folder a path leads into, unless it is that flow."""
    below = next(real.removeprefix(f"{each}/") for each in FOLDERS if real.startswith(f"{each}/"))
    start = real.removesuffix(below)
    parts, flow_root = below.split("/"), FlowRoot(root)
    for end in range(1, len(parts)):
        flow = f"{start}{'/'.join(parts[:end])}/{FLOW}"
        if flow != real and flow_root.has_file(flow):
            return flow
    return None
