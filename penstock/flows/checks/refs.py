"""References to other flows: where they lead, whether they come back, and what they bring."""

from collections.abc import Iterator

from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic
from penstock.core.text import cut
from penstock.flows.checks.context import CheckContext
from penstock.flows.checks.subflows import RefTarget, ResolvedRef, follow
from penstock.flows.checks.view import FlowView
from penstock.flows.definition import FlowRef
from penstock.manifest.fields import quoted

PATH = "path"
LIST_CHARACTERS = 500
"""Of all the ids that collide."""
MOST_FOLLOWED = 200
"""Flows that are looked at for a way back."""


def check_refs(view: FlowView) -> Iterator[Diagnostic]:
    """Yield what is wrong with the references of a flow."""
    for each in view.subflows.values():
        step, at = each.step, each.step.node.at(PATH).key_place
        path = quoted(step.step.path) if isinstance(step.step, FlowRef) else ""
        match each.leads:
            case RefTarget.OUTSIDE:
                said = f"path of {step.label} leaves the project: {path}"
                yield step.error("ref-outside", said, at)
            case RefTarget.NOWHERE:
                yield step.warning("ref-missing", f"no flow at {path} ({step.label})", at)
            case RefTarget.TO_A_FLOW:
                if way := _way_back(view.around, each):
                    said = f"{step.label} refers to a flow that contains it: {' -> '.join(way)}"
                    yield step.error("ref-cycle", said, at)
                elif ids := _colliding(view, each):
                    some = cut(", ".join(ids), LIST_CHARACTERS)
                    said = f"steps of {path} collide with others: {some}"
                    advice = f"use ${{{{result.{step.step_id}.…}}}}"
                    yield step.warning("ref-collision", said, at, advice)
            case RefTarget.OPEN:
                pass


def _colliding(view: FlowView, subflow: ResolvedRef) -> list[str]:
    """Return the ids that the flow itself, or another reference of it, has too."""
    others = set(view.by_id)
    for each in view.subflows.values():
        if each is not subflow:
            others.update(each.brings or ())
    return [each for each in subflow.brings or () if each in others]


def _way_back(around: CheckContext, subflow: ResolvedRef) -> list[str]:
    """Return the files from the flow to itself by one of its references, or nothing."""
    start = around.file
    ahead, seen = [[start, subflow.path]], {subflow.path}
    while ahead and start:
        way = ahead.pop(0)
        if way[-1] == start:
            return way
        flow = around.flow_at(way[-1])
        if flow is None or len(seen) > MOST_FOLLOWED:
            continue
        for each in follow(flow.steps, replace(around, file=way[-1])).values():
            if each.leads is RefTarget.TO_A_FLOW and each.path not in seen:
                seen.add(each.path)
                ahead.append([*way, each.path])
    return []
