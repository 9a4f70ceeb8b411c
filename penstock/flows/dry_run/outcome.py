"""What dry runs of a flow came to, and what they found around them."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from penstock.core.envelope import Json
from penstock.core.events.step import StepResult
from penstock.core.limits import World
from penstock.flows.agents.agent_sessions import GetAgent
from penstock.flows.project.library import FlowLibrary


class ReachedBranch(Struct, frozen=True):
    """A branch of a step, and whether a run took it."""

    step: str
    branch: str
    is_walked: bool


class EmptyTemplate(Struct, frozen=True):
    """A template that named nothing on a way that was walked."""

    step: str
    reference: str
    way: tuple[str, ...]
    """The steps that were started, the one that reads it last."""


class DryRun(Struct, frozen=True, kw_only=True):
    """What runs of a flow in memory came to."""

    runs: int = 0
    starts: int = 0
    reached: tuple[str, ...] = ()
    """In the order of the file."""
    branches: tuple[ReachedBranch, ...] = ()
    is_complete: bool = True
    """Nothing was left out for want of time, or of runs."""
    endless: tuple[str, ...] = ()
    """The steps that were started most in a run that did not end."""
    empty: tuple[EmptyTemplate, ...] = ()
    results: Mapping[str, StepResult] = field(default_factory=dict)
    """The newest of each step that succeeded."""
    failures: tuple[str, ...] = ()
    """Why runs ended with an error that nobody wanted."""

    def to_wire(self) -> Json:
        """Return what programs read."""
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
    """What a flow that is run dry finds around it."""

    get_agent: GetAgent
    library: FlowLibrary
    world: World
    config: Mapping[str, Any] = field(default_factory=dict)
    """Of the project."""
    root: str = ""
    """Of the flow, as FlowSource has it."""
