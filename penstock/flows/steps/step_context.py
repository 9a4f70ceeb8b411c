"""Where a visit of a step takes place, what readers are told of it, and how it ended."""

from typing import Any

from msgspec import Struct

from penstock.core.call import CallPath
from penstock.core.events.flow_events import FlowNotified, StepSettled
from penstock.core.profile import Profile
from penstock.engine.ledger import Ledger
from penstock.flows.runs.loops import RouteTaken
from penstock.flows.runs.run import Run
from penstock.flows.runs.values import TemplateValues
from penstock.flows.runs.visit_outcome import VisitOutcome
from penstock.flows.runs.warnings import warn

NOWHERE = RouteTaken(())


class VisitResult(Struct, frozen=True, kw_only=True):
    """How a visit ended, and where it leads."""

    ended: VisitOutcome
    route: RouteTaken = NOWHERE
    answer: str | None = None
    """What was chosen at a fork."""
    notes: str = ""
    decided_by: str = ""
    """The agent that decided a fork."""
    question: str = ""
    """Of a fork, expanded."""
    is_left_to_agent: bool = False
    """No person said anything: the agent of the fork decided alone."""

    def event(self, step_id: str, visit: int) -> StepSettled:
        """Return the visit as the log keeps it."""
        ended = self.ended
        return StepSettled(
            step_id=step_id,
            visit=visit,
            outcome=ended.outcome,
            result=ended.result,
            source=ended.source,
            text=ended.text,
            targets=self.route.targets,
            answer=self.answer,
            notes=self.notes,
            decided_by=self.decided_by,
            question=self.question,
        )


class StepContext(Struct, frozen=True, kw_only=True):
    """Where a visit takes place, and for whom."""

    run: Run
    frame: CallPath
    visit: int
    ledger: Ledger
    profile: Profile
    is_autonomous: bool

    def tell(self, kind: str, **body: Any) -> None:
        """Show readers of the run something."""
        self.ledger.add(FlowNotified(kind=kind, body=body), self.frame)

    def warn(self, message: str, **body: Any) -> None:
        """Tell readers of the run, and of its result, that something is odd; it goes on."""
        warn(self.ledger, self.frame, message, **body)

    def warn_of_missing(self, values: TemplateValues, step_id: str) -> None:
        """Tell readers which places of templates named nothing."""
        for reference in values.take_missing():
            self.warn(f"{reference} names nothing", stepId=step_id, reference=reference)
