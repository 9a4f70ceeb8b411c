"""Checks references to other flows: targets, cycles, and colliding step ids."""

from collections.abc import Iterator

from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic
from penstock.core.text import cut
from penstock.flows.checks.context import CheckContext, RefTarget, ResolvedRef, follow
from penstock.flows.checks.view import FlowView
from penstock.manifest.fields import quoted

PATH = "path"
LIST_CHARACTERS = 500
"""Limit on the list of colliding ids."""
MOST_FOLLOWED = 200
"""Limit on the flows followed in search of a cycle."""


def check_refs(view: FlowView) -> Iterator[Diagnostic]:
    """Yield findings about flow-ref steps."""
    for ref in view.subflows.values():
        step, place = ref.step, ref.step.node.at(PATH).key_place
        path = quoted(step.step.path_written or "")
        match ref.leads:
            case RefTarget.OUTSIDE:
                message = f"path of {step.label} leaves the project: {path}"
                yield step.error("ref-outside", message, place)
            case RefTarget.NOWHERE:
                yield step.warning("ref-missing", f"no flow at {path} ({step.label})", place)
            case RefTarget.TO_A_FLOW:
                if way := _way_back(view.around, ref):
                    message = f"{step.label} refers to a flow that contains it: {' -> '.join(way)}"
                    yield step.error("ref-cycle", message, place)
                elif ids := _colliding(view, ref):
                    some = cut(", ".join(ids), LIST_CHARACTERS)
                    message = f"steps of {path} collide with others: {some}"
                    advice = f"use ${{{{result.{step.step_id}.…}}}}"
                    yield step.warning("ref-collision", message, place, advice)
            case RefTarget.OPEN:
                pass


def _colliding(view: FlowView, subflow: ResolvedRef) -> list[str]:
    """Return the ids that the flow itself or another flow-ref also has."""
    others = set(view.by_id)
    for other in view.subflows.values():
        if other is not subflow:
            others.update(other.brings or ())
    return [step_id for step_id in subflow.brings or () if step_id in others]


def _way_back(around: CheckContext, subflow: ResolvedRef) -> list[str]:
    """Return the files from the flow back to itself, or an empty list."""
    start = around.file
    queue, seen = [[start, subflow.path]], {subflow.path}
    while queue and start:
        way = queue.pop(0)
        if way[-1] == start:
            return way
        flow = around.flow_at(way[-1])
        if flow is None or len(seen) > MOST_FOLLOWED:
            continue
        for ref in follow(flow.steps, replace(around, file=way[-1])).values():
            if ref.leads is RefTarget.TO_A_FLOW and ref.path not in seen:
                seen.add(ref.path)
                queue.append([*way, ref.path])
    return []
