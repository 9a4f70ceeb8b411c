"""Port through which runs find flows: by command, and by the path in a flow-ref step."""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from penstock.core.diagnostics import Diagnostic, did_you_mean
from penstock.core.errors import NotFound
from penstock.core.events.flow_events import FlowStarted
from penstock.flows.checks.subflows import resolve
from penstock.manifest.files import shown
from penstock.resources.project.globs import glob

_GLOB = re.compile(r"[*?]")


class FlowSource(Struct, frozen=True, kw_only=True):
    """A flow with everything that its run stores."""

    root: str = ""
    """Empty for the project, else the folder of a package. All references stay below it."""
    path: str
    """Relative to the root, with `/`."""
    texts: Mapping[str, str]
    """Texts of the flow and of everything it refers to by literal paths, by path."""
    errors: Sequence[Diagnostic] = ()
    """Known errors that prevent a run. An empty list does not mean that it was checked."""

    @property
    def text(self) -> str:
        """The text of the flow itself."""
        return self.texts[self.path]

    @property
    def name(self) -> str:
        """The path as messages show it."""
        return file_name(self.path, self.root)


class FlowLibrary(Protocol):
    """The flows that runs can use.

    Contract: a path in a flow is resolved relative to that flow first, then relative to its root
    (the project or the package). A glob returns its matches in path order. Nothing outside the root
    is read.
    """

    def find(self, command: str) -> FlowSource:
        """Return a flow by its command. Raises NotFound that names the nearest command."""
        ...

    def refer(self, source: FlowSource, path: str) -> Sequence[FlowSource] | None:
        """Return the flows that a path in a flow refers to; may be empty.

        None if the path leads out of the root. A source with an error if there are too many to
        list.
        """
        ...

    def faults(self, source: FlowSource) -> Sequence[Diagnostic]:
        """Return the errors that prevent a run, judged by the texts stored with the flow."""
        ...


class NoFlows:
    """FlowLibrary of a runtime without flows."""

    def find(self, command: str) -> FlowSource:
        """Raise NotFound."""
        raise unknown_flow(command, ())

    def refer(self, source: FlowSource, path: str) -> Sequence[FlowSource] | None:
        """Return no flows."""
        return ()

    def faults(self, source: FlowSource) -> Sequence[Diagnostic]:
        """Return no errors."""
        return ()


def source_of(started: FlowStarted) -> FlowSource:
    """Return a flow as its run stores it."""
    return FlowSource(root=started.root, path=started.file, texts=started.texts)


def file_name(path: str, root: str) -> str:
    """Return the path of a file as messages show it."""
    return f"{shown(root)}/{shown(path)}" if root else shown(path)


def unknown_flow(command: str, known: Iterable[str]) -> NotFound:
    """Return the NotFound error for an unknown command."""
    names = tuple(sorted(known))
    near = did_you_mean(command, names) or " `penstock flow list` shows those there are."
    error = NotFound(f'there is no flow "/{command}".{near}')
    error.known = names
    return error


def is_glob(path: str) -> bool:
    """Whether a path may match several files."""
    return bool(_GLOB.search(path))


def places_of(path: str, file: str) -> list[str] | None:
    """Return candidate paths for a reference in a flow's file, best first; None if outside."""
    return resolve(path, posixpath.dirname(file)) or None


def matches(pattern: str, files: Iterable[str]) -> list[str]:
    """Return the files that a path or glob matches, in path order."""
    if not is_glob(pattern):
        return [file for file in files if file == pattern]
    compiled = glob(pattern)
    return sorted(file for file in files if compiled.fits(file))
