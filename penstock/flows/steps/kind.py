"""What a kind of step is made of. Each kind is one file of this package, and a row in `table.py`.

The class of a kind (a subclass of `Step`) says how it plans, draws and describes itself. The row
adds what needs more than the step: how its fields are parsed, how it is checked, and how a visit
is carried out, for real or in a dry run.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from penstock.core.diagnostics import Diagnostic
from penstock.core.events.flow_events import Output
from penstock.flows.checks.view import FlowView
from penstock.flows.definition import Step
from penstock.flows.parsed import ParsedStep, StepNode
from penstock.flows.steps.fields import StepField
from penstock.flows.steps.step_context import StepContext, StepTools, VisitResult

Visit = Callable[[Any, StepContext, StepTools], Awaitable[VisitResult]]
"""Carries out a visit of a step to its end. Raises Suspend if it waits for a person, Cancel if the
cancellation of the run was requested."""
Check = Callable[[Any, ParsedStep, FlowView], Iterator[Diagnostic]]
"""Yields the findings that only this kind has."""
Sample = Callable[[Iterable[Output]], dict[str, Any]]
"""Returns a sample value for each output."""
Simulate = Callable[[Any, StepContext, Sample], Mapping[str, Any]]
"""Expands the templates of a step as a visit would, and returns sample outputs."""
Complete = Callable[[StepNode, dict[str, Any]], None]
"""Adds to the attributes of a step those that follow from others."""


def no_findings(step: Step, parsed: ParsedStep, view: FlowView) -> Iterator[Diagnostic]:
    """Yield nothing."""
    del step, parsed, view
    yield from ()


def nothing_to_add(node: StepNode, values: dict[str, Any]) -> None:
    """Leave the attributes as they are."""
    del node, values


class StepKind(Struct, frozen=True, kw_only=True):
    """A kind of step."""

    step: type[Step]
    fields: Sequence[StepField]
    """In the order in which missing fields are reported, after those of every step."""
    visit: Visit
    simulate: Simulate | None = None
    """None: in a dry run, agents with a script carry out the visit."""
    check: Check = no_findings
    complete: Complete = nothing_to_add
    implied_by: str = ""
    """The field that implies this kind where `type` is missing."""
    unless: str = ""
    """A field that prevents that."""
