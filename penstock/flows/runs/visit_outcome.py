"""How one visit of a step ended, before the log has it."""

from collections.abc import Sequence

from msgspec import Struct, field

from penstock.core.step import Outcome, StepResult, StepStatus
from penstock.core.task import Missing


class VisitOutcome(Struct, frozen=True, kw_only=True):
    """How the visit of a step ended, and what it leaves."""

    outcome: Outcome
    result: StepResult
    source: str = ""
    """Why it failed, as a word for programs."""
    text: str = ""
    """Why it failed, as a sentence."""
    warnings: Sequence[str] = field(default=())
    missing: Missing | None = None
    """What this process does not have, if the visit failed for that."""


def failed(
    source: str, text: str, *, is_hard: bool = False, missing: Missing | None = None
) -> VisitOutcome:
    """Return the end of a visit that has no result of its own."""
    result = StepResult(status=StepStatus.ERROR, summary=text, full_output=text)
    outcome = Outcome.HARD if is_hard else Outcome.SOFT
    return VisitOutcome(outcome=outcome, result=result, source=source, text=text, missing=missing)
