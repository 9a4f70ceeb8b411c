"""Writes agents and flows of an open project, runs written flows dry, and loads them at once."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.agents.agent_file import KnownNames
from penstock.agents.agent_folders import AgentFiles, load_agents, write_agent
from penstock.agents.catalog import Catalog, catalog_entries
from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json
from penstock.core.late import late
from penstock.core.limits import World
from penstock.flows.definition import Flow
from penstock.flows.dry_run.outcome import DryRun, DryRunContext
from penstock.flows.parsed_flow import ParsedFlow
from penstock.flows.parsing import read_flow
from penstock.flows.project.authoring import WrittenFlow, write_flow
from penstock.flows.project.files import FlowFile
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.library import FlowLibrary
from penstock.resources.project.files import ProjectFiles
from penstock.tools.resources import Authoring, ProjectFolder

RunDry = Callable[[Flow, str, DryRunContext], DryRun]
FindDryProblems = Callable[[ParsedFlow, DryRun], Sequence[Diagnostic]]
_MAX_REPORTED = 100
"""A report lists at most this many findings."""


def ignore(findings: Json) -> None:
    """Ignore the notification."""


class ProjectAgents:
    """The agents of a project: their catalog, and the names that their files can refer to.

    `packages` are folders of plugins with more agents.
    """

    def __init__(self, catalog: Catalog, known: KnownNames, packages: Sequence[Path] = ()) -> None:
        self.catalog = catalog
        self.known = known
        self._packages = packages

    def renew(self, known: KnownNames) -> None:
        """Check agents against the names of a newer edition of the project from now on."""
        self.known = known

    def read(self, root: Path) -> AgentFiles:
        """Read all files again, and put what they declare into the catalog."""
        files = load_agents(root, self.known, self._packages)
        self.catalog.replace_files(files)
        return files


class DryRuns(Struct, frozen=True, kw_only=True):
    """Runs flows without effects. A dry run blocks, so call it in a thread.

    The modules that do it are loaded at the first dry run.
    """

    agents: Catalog
    flows: FlowLibrary
    world: World
    config: Mapping[str, Any] = field(default_factory=dict)
    """The values of `${{config.KEY}}` in the project."""

    def run(
        self, read: ParsedFlow, file: FlowFile | None = None
    ) -> tuple[DryRun, Sequence[Diagnostic]]:
        """Return the results of a flow's dry runs, and findings for its author.

        Without a file it is one of the project. A flow that cannot be read is not run.
        """
        if read.flow is None:
            return DryRun(), ()
        context = DryRunContext(
            get_agent=self.agents.get_from_files,
            library=self.flows,
            world=self.world,
            config=self.config,
            root="" if file is None else file.home,
        )
        run_dry: RunDry = late("penstock.flows.dry_run.dry_run:dry_run")
        findings_of: FindDryProblems = late("penstock.flows.dry_run.dry_run:dry_findings")
        dry_run = run_dry(read.flow, read.file if file is None else file.path, context)
        return dry_run, findings_of(read, dry_run)


class ProjectAuthoring:
    """Writes agents and flows, and reads all of them again."""

    def __init__(
        self,
        folder: ProjectFolder,
        agents: ProjectAgents,
        flows: ProjectFlows,
        *,
        dry_runs: DryRuns | None = None,
        notify: Callable[[Json], None] = ignore,
    ) -> None:
        """`dry_runs` runs a written flow in memory; None skips that.

        `notify` receives the report whenever all files were read again.
        """
        self._files = ProjectFiles(folder.root)
        self.agents = agents
        self._flows = flows
        self.dry_runs = dry_runs
        self._notify = notify
        self._reading = Lock()
        """Held while files are read: the last reader sees the last write."""

    @property
    def callbacks(self) -> Authoring:
        """The functions of this object that tools call."""
        return Authoring(
            agents=lambda: catalog_entries(self.agents.catalog),
            write_agent=self.write_agent,
            write_flow=self.write_flow,
            rediscover=self.rediscover,
        )

    def write_agent(self, path: str, content: str) -> Json:
        """Write an agent; return the answer of `agent_write`."""
        known = self.agents.known
        catalog = self.agents.catalog
        names = {*known.agents, *catalog.broken, *(each.name for each in catalog)}
        written = write_agent(self._files, path, content, replace(known, agents=names))
        return {
            "written": written.is_written,
            "path": written.path,
            "diagnostics": [each.to_finding() for each in written.diagnostics],
            **({"error": written.error} if written.error else {}),
        }

    def write_flow(self, path: str, content: str) -> Json:
        """Write a flow; return the answer of `flow_write`, with the result of a dry run."""
        written = write_flow(self._flows, path, content)
        return {**written.to_wire(), **self.dry_run(written, content)}

    def dry_run(self, written: WrittenFlow, content: str) -> Json:
        """Return the result of a dry run of a written flow, as a part of the answer."""
        if not written.is_written or self.dry_runs is None:
            return {}
        result, problems = self.dry_runs.run(read_flow(content, written.path))
        return {
            "dryRun": {**result.to_wire(), "problems": [each.to_finding() for each in problems]}
        }

    def rediscover(self) -> Json:
        """Read the agents and the names of flows again; return what changed for listeners."""
        with self._reading:
            agents = self.agents.read(self._files.root)
            flows = self._flows.files()
        diagnostics = [*agents.diagnostics, *flows.diagnostics]
        report: Json = {
            "agents": [each.name for each in self.agents.catalog.list_from_files()],
            "flows": sorted(flows.files),
            "diagnostics": [str(each) for each in diagnostics[:_MAX_REPORTED]],
        }
        self._notify(report)
        return report
