"""Port through which runs find flows, and what a run stores of the flows that it refers to.

A run finds a flow by its command, or by the path in a flow-ref step.

Guarantees: a flow-ref with a literal path runs the text that existed when the run started, even
if the file changes or disappears meanwhile. A path with templates or wildcards is known only when
the step runs, so its flow is read then and stored with the nested start. The total size is
limited. Tests: tests/flows/project/test_library.py.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from penstock.core.diagnostics import Diagnostic, did_you_mean
from penstock.core.errors import NotFound
from penstock.core.events.flow_events import FlowStarted
from penstock.flows.checks.context import is_literal, resolve
from penstock.flows.definition import Flow, Step
from penstock.flows.parsing import flow_of
from penstock.manifest.files import shown
from penstock.resources.project.globs import glob

SUFFIXES = (".yaml", ".yml")
"""Suffixes of flow files."""
_GLOB = re.compile(r"[*?]")
MAX_CHARACTERS = 16 * 1024 * 1024
"""Limit on all texts that one run stores at its start."""
TextAt = Callable[[str], str | None]
"""Returns the text of a flow by its path; None if there is none."""


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


def referred_texts(path: str, text_at: TextAt) -> dict[str, str]:
    """Return the texts of a flow and of all flows that literal paths lead to, by path.

    Stops after MAX_CHARACTERS; `check_size` then reports an error.
    """
    texts: dict[str, str] = {}
    queue, size = [path], 0
    while queue and size <= MAX_CHARACTERS:
        current = queue.pop(0)
        text = text_at(current)
        if text is not None and current not in texts:
            texts[current] = text
            size += len(text)
            queue += _literal_targets(text, current, text_at)
    return texts


def check_size(texts: dict[str, str], file: str) -> Sequence[Diagnostic]:
    """Return the error for texts that exceed the limit, if they do."""
    if sum(map(len, texts.values())) <= MAX_CHARACTERS:
        return ()
    message = f"the flow and what it refers to have more than {MAX_CHARACTERS} characters"
    return [Diagnostic(code="flows-too-large", message=message, file=file)]


def promised_ids(source: FlowSource, flow: Flow) -> dict[str, frozenset[str]]:
    """Return the step ids that literal references provide, each with the flow-ref steps."""
    providers: dict[str, frozenset[str]] = {}
    for step in flow.steps:
        place = _leads_to(step, source.path, source.texts.get)
        inner = None if place is None else flow_of(source.texts[place], place)
        for name in inner.by_id if inner is not None else ():
            providers[name] = providers.get(name, frozenset()) | {step.step_id}
    return providers


def referred_flows(
    library: FlowLibrary, source: FlowSource, written: str, path: str
) -> Sequence[FlowSource] | None:
    """Return the flows that a path refers to: as stored with the run, else from the library.

    `written` is the path before its templates were expanded. None if it leads out of the root.
    """
    if is_literal(written):
        for place in resolve(path, posixpath.dirname(source.path)):
            if place in source.texts:
                return [_kept(source, place)]
    flows = library.refer(source, path)
    return flows and [
        _kept(source, flow.path) if flow.path in source.texts else flow for flow in flows
    ]


def _literal_targets(text: str, path: str, text_at: TextAt) -> Iterator[str]:
    """Yield the paths of the flows that literal references of a flow lead to."""
    flow = flow_of(text, path)
    for step in flow.steps if flow is not None else ():
        target = _leads_to(step, path, text_at)
        if target is not None:
            yield target


def _leads_to(step: Step, path: str, text_at: TextAt) -> str | None:
    """Return the path that a literal reference leads to; None if it is not literal or dangling."""
    path_written = step.path_written if step.is_nested else None
    if path_written is None or not is_literal(path_written):
        return None
    places = resolve(path_written, posixpath.dirname(path))
    return next((place for place in places if text_at(place) is not None), None)


def _kept(source: FlowSource, path: str) -> FlowSource:
    """Return a nested flow from the texts that the outer run stores."""
    kept = source.texts
    texts = referred_texts(path, kept.get)
    # Modules of code steps are not reachable through flow texts: every stored one goes along.
    texts |= {name: text for name, text in kept.items() if not name.endswith(SUFFIXES)}
    return FlowSource(root=source.root, path=path, texts=texts)
