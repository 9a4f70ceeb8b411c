"""What a run stores of the flows that it refers to.

Guarantees: a flow-ref with a literal path runs the text that existed when the run started, even
if the file changes or disappears meanwhile. A path with templates or wildcards is known only when
the step runs, so its flow is read then and stored with the nested start. The total size is
limited. Tests: tests/flows/project/test_snapshot.py.
"""

import posixpath
from collections.abc import Callable, Iterator, Sequence

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.subflows import is_literal, resolve
from penstock.flows.definition import AnyStep, Flow, FlowRef
from penstock.flows.project.files import SUFFIXES
from penstock.flows.project.library import FlowLibrary, FlowSource
from penstock.flows.reading.flow import flow_of

MOST_CHARACTERS = 16 * 1024 * 1024
"""Limit on all texts that one run stores at its start."""
TextAt = Callable[[str], str | None]
"""Returns the text of a flow by its path; None if there is none."""


def referred_texts(path: str, text_at: TextAt) -> dict[str, str]:
    """Return the texts of a flow and of all flows that literal paths lead to, by path.

    Stops after MOST_CHARACTERS; `check_size` then reports an error.
    """
    texts: dict[str, str] = {}
    queue, size = [path], 0
    while queue and size <= MOST_CHARACTERS:
        current = queue.pop(0)
        text = text_at(current)
        if text is not None and current not in texts:
            texts[current] = text
            size += len(text)
            queue += _literal_targets(text, current, text_at)
    return texts


def check_size(texts: dict[str, str], file: str) -> Sequence[Diagnostic]:
    """Return the error for texts that exceed the limit, if they do."""
    if sum(map(len, texts.values())) <= MOST_CHARACTERS:
        return ()
    message = f"the flow and what it refers to have more than {MOST_CHARACTERS} characters"
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


def _leads_to(step: AnyStep, path: str, text_at: TextAt) -> str | None:
    """Return the path that a literal reference leads to; None if it is not literal or dangling."""
    if not isinstance(step, FlowRef) or not is_literal(step.path):
        return None
    places = resolve(step.path, posixpath.dirname(path))
    return next((place for place in places if text_at(place) is not None), None)


def _kept(source: FlowSource, path: str) -> FlowSource:
    """Return a nested flow from the texts that the outer run stores."""
    kept = source.texts
    texts = referred_texts(path, kept.get)
    # Modules of code steps are not reachable through flow texts: every stored one goes along.
    texts |= {name: text for name, text in kept.items() if not name.endswith(SUFFIXES)}
    return FlowSource(root=source.root, path=path, texts=texts)
