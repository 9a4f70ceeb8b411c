"""What a run keeps of the flows that it refers to: literal paths lead there as it begins."""

import posixpath
from collections.abc import Callable, Iterator, Sequence

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.subflows import is_literal, resolve
from penstock.flows.definition import AnyStep, Flow, FlowRef
from penstock.flows.project.files import SUFFIXES
from penstock.flows.project.library import FlowLibrary, FlowSource
from penstock.flows.reading.flow import flow_of

MOST_CHARACTERS = 16 * 1024 * 1024
"""Of all flows that one run keeps from its beginning."""
TextAt = Callable[[str], str | None]
"""The text of a flow by its path; None if there is none."""


def referred_texts(path: str, text_at: TextAt) -> dict[str, str]:
    """Return the text of a flow, and of those that literal paths lead to from it, by path.

    Where it comes to more than MOST_CHARACTERS, not all are there.
    """
    texts: dict[str, str] = {}
    waiting, size = [path], 0
    while waiting and size <= MOST_CHARACTERS:
        here = waiting.pop(0)
        text = text_at(here)
        if text is not None and here not in texts:
            texts[here] = text
            size += len(text)
            waiting += _from(text, here, text_at)
    return texts


def check_size(texts: dict[str, str], file: str) -> Sequence[Diagnostic]:
    """Return that a run cannot keep all it would have to, if that is so."""
    if sum(map(len, texts.values())) <= MOST_CHARACTERS:
        return ()
    said = f"the flow and what it refers to have more than {MOST_CHARACTERS} characters"
    return [Diagnostic(code="flows-too-large", message=said, file=file)]


def promised_ids(source: FlowSource, flow: Flow) -> dict[str, frozenset[str]]:
    """Return the ids of steps that literal paths lead to, each with the references that do."""
    found: dict[str, frozenset[str]] = {}
    for step in flow.steps:
        place = _leads_to(step, source.path, source.texts.get)
        inner = None if place is None else flow_of(source.texts[place], place)
        for name in inner.by_id if inner is not None else ():
            found[name] = found.get(name, frozenset()) | {step.step_id}
    return found


def referred_flows(
    library: FlowLibrary, source: FlowSource, written: str, path: str
) -> Sequence[FlowSource] | None:
    """Return the flows that a path in a flow means, as its run keeps them, else as they are.

    `written` is the path before it was expanded. None if it leads out of the root.
    """
    if is_literal(written):
        for place in resolve(path, posixpath.dirname(source.path)):
            if place in source.texts:
                return [_kept(source, place)]
    found = library.refer(source, path)
    return found and [
        _kept(source, each.path) if each.path in source.texts else each for each in found
    ]


def _from(text: str, path: str, text_at: TextAt) -> Iterator[str]:
    """Yield where the literal paths of a flow lead."""
    flow = flow_of(text, path)
    for step in flow.steps if flow is not None else ():
        found = _leads_to(step, path, text_at)
        if found is not None:
            yield found


def _leads_to(step: AnyStep, path: str, text_at: TextAt) -> str | None:
    """Return where a literal path of a step leads in a flow's file; None if it has none."""
    if not isinstance(step, FlowRef) or not is_literal(step.path):
        return None
    places = resolve(step.path, posixpath.dirname(path))
    return next((each for each in places if text_at(each) is not None), None)


def _kept(source: FlowSource, path: str) -> FlowSource:
    """Return a flow that the run of another keeps, with what that run keeps for it."""
    kept = source.texts
    texts = referred_texts(path, kept.get)
    texts |= {each: text for each, text in kept.items() if not each.endswith(SUFFIXES)}
    return FlowSource(root=source.root, path=path, texts=texts)
