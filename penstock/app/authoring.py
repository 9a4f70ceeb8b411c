"""Writes agents and flows of an open project: what is written is known at once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from penstock.agents.authoring import write_agent
from penstock.agents.catalog import Catalog, catalog_entries
from penstock.agents.file_checks import KnownNames
from penstock.agents.folders import load_agents
from penstock.app.dry_runs import DryRuns
from penstock.core.envelope import Json
from penstock.flows.project.authoring import WrittenFlow, write_flow
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.reading.flow import read_flow
from penstock.resources.project.files import ProjectFiles
from penstock.tools.errands import Authoring
from penstock.tools.resources import ProjectFolder

_MOST_TOLD = 100
"""Findings that are told of."""


class ProjectAuthoring:
    """Writes agents and flows, and reads all of them again."""

    def __init__(
        self, folder: ProjectFolder, catalog: Catalog, flows: ProjectFlows, known: KnownNames
    ) -> None:
        self._files = ProjectFiles(folder.root)
        self._catalog = catalog
        self._flows = flows
        self.known = known
        """What agents may name; a newer edition of the project may say otherwise."""
        self.dry_runs: DryRuns | None = None
        """What runs flows dry that were written; None where nothing does."""
        self.packages: Sequence[Path] = ()
        """Folders of plugins with agents."""
        self.tell: Callable[[Json], None] = _nobody
        """Hears what was found whenever all was read again."""
        self._reading = Lock()
        """Held by who reads: what was read last has seen what was written last."""

    @property
    def errand(self) -> Authoring:
        """What tools may have done of this."""
        return Authoring(
            agents=lambda: catalog_entries(self._catalog),
            write_agent=self.write_agent,
            write_flow=self.write_flow,
            rediscover=self.rediscover,
        )

    def write_agent(self, path: str, content: str) -> Json:
        """Write an agent; returns what `agent_write` answers."""
        written = write_agent(self._files, path, content, self.known)
        return {
            "written": written.is_written,
            "path": written.path,
            "diagnostics": [each.to_finding() for each in written.diagnostics],
            **({"error": written.error} if written.error else {}),
        }

    def write_flow(self, path: str, content: str) -> Json:
        """Write a flow; returns what `flow_write` answers, with what a dry run came to."""
        written = write_flow(self._flows, path, content)
        return {**written.to_wire(), **self.dry_run(written, content)}

    def dry_run(self, written: WrittenFlow, content: str) -> Json:
        """Return what a dry run of a flow came to that was written, as a part of an answer."""
        if not written.is_written or self.dry_runs is None:
            return {}
        found, problems = self.dry_runs.of(read_flow(content, written.path))
        return {"dryRun": {**found.to_wire(), "problems": [each.to_finding() for each in problems]}}

    def rediscover(self) -> Json:
        """Read the agents and the names of flows again; returns what is told of that."""
        with self._reading:
            found = load_agents(self._files.root, self.known, self.packages)
            self._catalog.take(found)
            flows = self._flows.files()
        diagnostics = [*found.diagnostics, *flows.diagnostics]
        told: Json = {
            "agents": [each.name for each in self._catalog.of_files()],
            "flows": sorted(flows.files),
            "diagnostics": [str(each) for each in diagnostics[:_MOST_TOLD]],
        }
        self.tell(told)
        return told


def _nobody(told: Json) -> None:
    """Tell nobody."""
