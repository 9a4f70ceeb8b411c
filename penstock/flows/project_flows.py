"""The flows of a project on disk, as runs get them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from penstock.core.diagnostics import Diagnostic, errors_of
from penstock.flows.check import check_flow
from penstock.flows.checks.surroundings import Surroundings
from penstock.flows.code_modules import Modules
from penstock.flows.files import (
    SUFFIXES,
    FlowFile,
    FlowFiles,
    FlowRoot,
    built_in_flows,
    find_flows,
    read_flow_file,
)
from penstock.flows.library import FlowSource, matches, places_of, unknown_flow
from penstock.flows.reading import ReadFlow, read_flow

_MOST_SEEN = 20_000
"""Files of a project that a glob looks at."""


class ProjectFlows:
    """The Library of a project's folder, and of packages: files are read when they are wanted."""

    def __init__(
        self,
        root: Path,
        around: Callable[[], Surroundings],
        *,
        packages: Sequence[Path] = (),
        modules: Modules | None = None,
    ) -> None:
        self.root = root
        self._around = around
        """The agents that there are now, and what else a flow may name."""
        self._packages = packages
        self._modules = modules
        """Reads the modules of code steps; None where no script can be read."""

    def find(self, command: str) -> FlowSource:
        """Return a flow by its command, with what keeps it from running."""
        found = self.files().files
        if command not in found:
            raise unknown_flow(command, found)
        file = found[command]
        read, diagnostics = self.check(file)
        errors = errors_of(diagnostics)
        return replace(self._source(read, file.root), errors=errors)

    def files(self) -> FlowFiles:
        """Return every flow by its command, and what is wrong with names."""
        found = find_flows(self.root, self._packages)
        found.files = built_in_flows().files | found.files
        return found

    def check(self, file: FlowFile) -> tuple[ReadFlow, Sequence[Diagnostic]]:
        """Return a flow, and everything that is wrong with it."""
        read = read_flow_file(file)
        return read, check_flow(read, self._surroundings(file))

    def check_text(self, file: FlowFile, content: str) -> Sequence[Diagnostic]:
        """Return everything that is wrong with a text that may become a flow's file."""
        return check_flow(read_flow(content, file.name), self._surroundings(file))

    def refer(self, file: str, path: str) -> Sequence[FlowSource] | None:
        """Return the flows that a path means."""
        places = places_of(path, file)
        if places is None:
            return None
        root = FlowRoot(self.root)
        for place in places:
            flows = [root.flow_at(each) for each in self._meant(place, root)]
            if found := [self._source(each, self.root) for each in flows if each]:
                return found
        return ()

    def _meant(self, place: str, root: FlowRoot) -> list[str]:
        is_plain = root.has_file(place)
        return [place] if is_plain else matches(place, self._files())

    def _files(self) -> Iterator[str]:
        """Yield the flow files of the project, hidden folders left out."""
        for count, path in enumerate(self.root.rglob("*")):
            if count >= _MOST_SEEN:
                return
            name = path.relative_to(self.root).as_posix()
            if name.endswith(SUFFIXES) and not any(p.startswith(".") for p in name.split("/")):
                yield name

    def _surroundings(self, file: FlowFile) -> Surroundings:
        around = FlowRoot(file.root).around(file, self._around())
        if self._modules is None:
            return around
        return replace(around, code_fault=partial(self._modules.find_fault, root=file.root))

    def _source(self, read: ReadFlow, root: Path) -> FlowSource:
        texts = {read.file: read.text}
        if self._modules is not None and read.flow is not None:
            texts |= self._modules.texts(read.flow, read.file, root)
        return FlowSource(file=read.file, texts=texts)
