"""Resolves the flow-ref steps of a flow."""

import posixpath
import re
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from penstock.flows.checks.context import CheckContext
from penstock.flows.definition import FlowRef
from penstock.flows.reading.flow import ParsedFlow
from penstock.flows.reading.steps import ParsedStep
from penstock.manifest.template import parse

_GLOB = re.compile(r"[*?]")


class RefTarget(StrEnum):
    """Where the path of a flow-ref leads."""

    OPEN = "open"
    """Known only in a run: the path has templates or is a glob."""
    OUTSIDE = "outside"
    NOWHERE = "nowhere"
    TO_A_FLOW = "to a flow"


class ResolvedRef(Struct, frozen=True, kw_only=True):
    """A flow-ref step with its target."""

    step: ParsedStep
    leads: RefTarget
    path: str = ""
    """Path of the flow, relative to the project."""
    flow: ParsedFlow | None = None

    @property
    def brings(self) -> tuple[str, ...] | None:
        """Ids of the steps whose results it brings; None if they cannot be known."""
        if self.flow is None or self.flow.document.value is None:
            return None
        return tuple(each.step_id for each in self.flow.steps if each.is_named)


def follow(steps: Iterable[ParsedStep], around: CheckContext) -> dict[str, ResolvedRef]:
    """Resolve every flow-ref of a flow, by step id."""
    return {
        each.step_id: _followed(each, each.step.path, around)
        for each in steps
        if isinstance(each.step, FlowRef)
    }


def is_literal(path: str) -> bool:
    """Whether a path has neither templates nor wildcards."""
    template = parse(path)
    return not template.refs and not template.broken and not _GLOB.search(path)


def resolve(path: str, folder: str) -> list[str]:
    """Return the possible targets of a path, best first; empty if it leaves the project."""
    # Backslash and NUL would mean something else to the file system than to this comparison.
    if path.startswith("/") or "\\" in path or "\0" in path:
        return []
    candidates = [posixpath.normpath(posixpath.join(folder, path)), posixpath.normpath(path)]
    return [each for each in dict.fromkeys(candidates) if each.split("/")[0] != ".."]


def _followed(step: ParsedStep, path: str, around: CheckContext) -> ResolvedRef:
    if not path.strip() or not is_literal(path):
        return ResolvedRef(step=step, leads=RefTarget.OPEN)
    places = resolve(path, around.folder)
    if not places:
        return ResolvedRef(step=step, leads=RefTarget.OUTSIDE)
    for place in places:
        flow = around.flow_at(place)
        if flow is not None:
            return ResolvedRef(step=step, leads=RefTarget.TO_A_FLOW, path=place, flow=flow)
    return ResolvedRef(step=step, leads=RefTarget.NOWHERE)
