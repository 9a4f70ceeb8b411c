"""What dry runs of a flow came to, and what they found around them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.envelope import Json
from penstock.core.step import StepResult
from penstock.core.world import World
from penstock.flows.agents.agent_sessions import GetAgent
from penstock.flows.project.library import FlowLibrary


@dataclass(frozen=True, slots=True)
class ReachedBranch:
    """A branch of a step, and whether a run took it."""

    step: str
    branch: str
    is_walked: bool


@dataclass(frozen=True, slots=True)
class EmptyTemplate:
    """A template that named nothing on a way that was walked."""

    step: str
    reference: str
    way: tuple[str, ...]
    """The steps that were started, the one that reads it last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunContext:
    """What a flow that is run dry finds around it."""

    get_agent: GetAgent
    library: FlowLibrary
    world: World
    config: Mapping[str, Any] = field(default_factory=dict)
    """Of the project."""
    root: str = ""
    """Of the flow, as FlowSource has it."""
