"""A visit of a step: what it needs, its context, and its result."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from penstock.core.call import CallPath
from penstock.core.events.flow_events import FlowNotified, StepSettled
from penstock.core.limits import World
from penstock.core.profile import Profile
from penstock.engine.ledger import Ledger
from penstock.flows.agents.agent_sessions import AgentSessions
from penstock.flows.runs.run import Run
from penstock.flows.runs.values import RouteTaken, TemplateValues
from penstock.flows.runs.visits import VisitOutcome, warn
from penstock.sandbox.reading.folder import Files
from penstock.sandbox.script import LoadResult, Sandbox
from penstock.tools.invoker import Invoker
from penstock.tools.resources import ProjectFolder
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.tool import Tool

NOWHERE = RouteTaken(())
NO_BINDINGS = Bindings()
InvokerWith = Callable[[Tool], Invoker]
"""Returns an invoker for all tools of the project and the passed one."""
LoadModule = Callable[[str, Files], LoadResult]
"""Compiles a module to a script, or returns its problems. `Files` are the files beside it."""


class CodeEnvironment(Struct, frozen=True, kw_only=True):
    """What code steps need to run."""

    sandbox: Sandbox
    load: LoadModule
    usual: Bindings = NO_BINDINGS
    """Bindings of every script of the project."""


class StepTools(Struct, frozen=True, kw_only=True):
    """What visits work with: the parts of a runtime that steps of some kind use."""

    agent_sessions: AgentSessions
    invoker: Invoker
    world: World
    invoker_with: InvokerWith
    code_environment: CodeEnvironment | None = None
    """None: no project folder, so modules cannot run."""
    project: ProjectFolder | None = None
    """None: no project folder, so commands cannot run."""


class VisitResult(Struct, frozen=True, kw_only=True):
    """Outcome of a visit, with the route and the details of a fork."""

    ended: VisitOutcome
    route: RouteTaken = NOWHERE
    answer: str | None = None
    """The answer at a fork."""
    notes: str = ""
    decided_by: str = ""
    """The agent that decided a fork; empty if a person did."""
    question: str = ""
    """The expanded question of a fork."""
    is_left_to_agent: bool = False
    """The fork's agent decided alone: the run is autonomous, or a person chose to leave it."""

    def event(self, step_id: str, visit: int) -> StepSettled:
        """Return the event that records this visit."""
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
    """The frame of a visit, its run, and the profile that it acts for."""

    run: Run
    frame: CallPath
    visit: int
    ledger: Ledger
    profile: Profile
    is_autonomous: bool

    def tell(self, kind: str, **body: Any) -> None:
        """Add an event for readers of the run."""
        self.ledger.add(FlowNotified(kind=kind, body=body), self.frame)

    def warn(self, message: str, **body: Any) -> None:
        """Add a warning to the log and to the result of the run. The run continues."""
        warn(self.ledger, self.frame, message, **body)

    def warn_of_missing(self, values: TemplateValues, step_id: str) -> None:
        """Warn of each placeholder that named nothing."""
        for reference in values.take_missing():
            self.warn(f"{reference} names nothing", stepId=step_id, reference=reference)
