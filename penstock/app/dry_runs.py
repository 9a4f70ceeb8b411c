"""Dry runs of flows with the agents and flows of a project."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from penstock.agents.catalog import Catalog
from penstock.core.diagnostics import Diagnostic
from penstock.core.late import late
from penstock.core.limits import World
from penstock.flows.definition import Flow
from penstock.flows.dry_run.outcome import DryRun, DryRunContext
from penstock.flows.project.files import FlowFile
from penstock.flows.project.library import FlowLibrary
from penstock.flows.reading.flow import ParsedFlow

RunDry = Callable[[Flow, str, DryRunContext], DryRun]
TellDry = Callable[[ParsedFlow, DryRun], Sequence[Diagnostic]]


class DryRuns(Struct, frozen=True, kw_only=True):
    """Runs flows without doing anything; all of it blocks, and wants a thread of its own.

    What does it is loaded with the first of them.
    """

    agents: Catalog
    flows: FlowLibrary
    world: World
    config: Mapping[str, Any] = field(default_factory=dict)
    """The values of `${{config.KEY}}` in the project."""

    def of(
        self, read: ParsedFlow, file: FlowFile | None = None
    ) -> tuple[DryRun, Sequence[Diagnostic]]:
        """Return the results of a flow's dry runs, and findings for its author.

        Without a file it is one of the project. A flow that cannot be read is not run.
        """
        if read.flow is None:
            return DryRun(), ()
        around = DryRunContext(
            get_agent=self.agents.worker,
            library=self.flows,
            world=self.world,
            config=self.config,
            root="" if file is None else file.home,
        )
        run: RunDry = late("penstock.flows.dry_run.dry_run:dry_run")
        tell: TellDry = late("penstock.flows.dry_run.findings:dry_findings")
        found = run(read.flow, read.file if file is None else file.path, around)
        return found, tell(read, found)
