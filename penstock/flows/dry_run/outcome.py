"""Result of dry runs of one flow, and what they need around it."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from penstock.core.envelope import Json
from penstock.core.events.flow_events import StepResult
from penstock.core.limits import World
from penstock.flows.agents.agent_runner import GetAgent
from penstock.flows.project.library import FlowLibrary


class ReachedBranch(Struct, frozen=True):
    """A branch of a step, and whether a run took it."""

    step: str
    branch: str
    is_walked: bool


class EmptyTemplate(Struct, frozen=True):
    """A template that named nothing on one path."""

    step: str
    reference: str
    way: tuple[str, ...]
    """The steps started on that path; the last one reads the template."""


class DryRun(Struct, frozen=True, kw_only=True):
    """Result of the dry runs of one flow."""

    runs: int = 0
    starts: int = 0
    reached: tuple[str, ...] = ()
    """Steps that a run reached, in file order."""
    branches: tuple[ReachedBranch, ...] = ()
    is_complete: bool = True
    """No limit of time or runs was hit."""
    endless: tuple[str, ...] = ()
    """Most started steps of a run that did not end."""
    empty: tuple[EmptyTemplate, ...] = ()
    results: Mapping[str, StepResult] = field(default_factory=dict)
    """Newest result of each step that succeeded."""
    failures: tuple[str, ...] = ()
    """Reasons of runs that ended with an error which the dry run did not choose."""

    def to_wire(self) -> Json:
        """Return the result for programs."""
        return {
            "runs": self.runs,
            "starts": self.starts,
            "reached": list(self.reached),
            "branches": [
                {"step": each.step, "branch": each.branch, "walked": each.is_walked}
                for each in self.branches
            ],
            "complete": self.is_complete,
        }


class DryRunContext(Struct, frozen=True, kw_only=True):
    """The surroundings of the flow that a dry run needs."""

    get_agent: GetAgent
    library: FlowLibrary
    world: World
    config: Mapping[str, Any] = field(default_factory=dict)
    """Config of the project."""
    root: str = ""
    """Root of the flow, as in FlowSource."""
