"""Outcome of one visit of a step, before it is written to the log."""

from collections.abc import Sequence

from msgspec import Struct, field

from penstock.core.events.flow_events import Outcome, StepResult, StepStatus
from penstock.core.task import Missing


class VisitOutcome(Struct, frozen=True, kw_only=True):
    """How a visit ended, and its result."""

    outcome: Outcome
    result: StepResult
    source: str = ""
    """Machine-readable reason of a failure."""
    text: str = ""
    """Human-readable reason of a failure."""
    warnings: Sequence[str] = field(default=())
    missing: Missing | None = None
    """The agent or model that this process lacks, if that is why the visit failed."""


def failed(
    source: str, text: str, *, is_hard: bool = False, missing: Missing | None = None
) -> VisitOutcome:
    """Return a failed visit whose result is only its error text."""
    result = StepResult(status=StepStatus.ERROR, summary=text, full_output=text)
    outcome = Outcome.HARD if is_hard else Outcome.SOFT
    return VisitOutcome(outcome=outcome, result=result, source=source, text=text, missing=missing)
