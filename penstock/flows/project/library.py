"""Where runs get flows from: by command, and by the path that a step gives."""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from penstock.core.diagnostics import Diagnostic, did_you_mean
from penstock.core.errors import NotFound
from penstock.core.events.flow_events import FlowStarted
from penstock.flows.checks.subflows import resolve
from penstock.manifest.files.discover import shown
from penstock.resources.project.globs import glob

_GLOB = re.compile(r"[*?]")


class FlowSource(Struct, frozen=True, kw_only=True):
    """A flow as it is now, with what its run is to keep."""

    root: str = ""
    """What it refers to lies below it: empty for the project, else the folder of a package."""
    path: str
    """Relative to the root, with `/`."""
    texts: Mapping[str, str]
    """Of the flow, and of what it refers to by literal paths; by path."""
    errors: Sequence[Diagnostic] = ()
    """What keeps it from running, as far as somebody looked."""

    @property
    def text(self) -> str:
        """The flow itself."""
        return self.texts[self.path]

    @property
    def name(self) -> str:
        """The file as people are told of it."""
        return file_name(self.path, self.root)


class FlowLibrary(Protocol):
    """The flows that there are.

    Contract: a path in a flow is looked for beside that flow first, then from its root, which is
    the project or its package; a glob gives its matches in path order; nothing outside that root is
    ever read.
    """

    def find(self, command: str) -> FlowSource:
        """Return a flow by its command. Raises NotFound, with the nearest one."""
        ...

    def refer(self, source: FlowSource, path: str) -> Sequence[FlowSource] | None:
        """Return the flows that a path in a flow means, perhaps none.

        None if the path leads out of the root. One with an error if they cannot all be told.
        """
        ...

    def faults(self, source: FlowSource) -> Sequence[Diagnostic]:
        """Return what keeps a flow from running, by the texts that come with it."""
        ...


class NoFlows:
    """The library of a runtime without flows."""

    def find(self, command: str) -> FlowSource:
        """Find nothing. Raises NotFound."""
        raise unknown_flow(command, ())

    def refer(self, source: FlowSource, path: str) -> Sequence[FlowSource] | None:
        """Find nothing."""
        return ()

    def faults(self, source: FlowSource) -> Sequence[Diagnostic]:
        """Find nothing wrong: there is no flow."""
        return ()


def source_of(started: FlowStarted) -> FlowSource:
    """Return a flow as its run keeps it."""
    return FlowSource(root=started.root, path=started.file, texts=started.texts)


def file_name(path: str, root: str) -> str:
    """Return how people are told of a file of a root."""
    return f"{shown(root)}/{shown(path)}" if root else shown(path)


def unknown_flow(command: str, known: Iterable[str]) -> NotFound:
    """Return the error of a command that no flow has."""
    names = tuple(sorted(known))
    near = did_you_mean(command, names) or " `penstock flow list` shows those there are."
    error = NotFound(f'there is no flow "/{command}".{near}')
    error.known = names
    return error


def is_glob(path: str) -> bool:
    """Whether a path may mean several files."""
    return bool(_GLOB.search(path))


def places_of(path: str, file: str) -> list[str] | None:
    """Return where a path of a flow's file may lead, the best first; None if that is outside."""
    return resolve(path, posixpath.dirname(file)) or None


def matches(pattern: str, files: Iterable[str]) -> list[str]:
    """Return the files that a path means, which may be a glob, in path order."""
    if not is_glob(pattern):
        return [each for each in files if each == pattern]
    wanted = glob(pattern)
    return sorted(each for each in files if wanted.fits(each))
