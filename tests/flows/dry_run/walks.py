"""Dry runs of flows in memory."""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.agents.catalog import Catalog
from penstock.core.clock import Clock, SystemClock
from penstock.core.events.flow_events import Output, ValueType
from penstock.core.ids import new_id
from penstock.core.limits import Limits, World
from penstock.flows.dry_run.dry_run import dry_findings, dry_run
from penstock.flows.dry_run.outcome import DryRun, DryRunContext
from penstock.testing.flows import MemoryFlows
from tests.flows.texts import TOP, finding_lines, read
from tests.kit.flows import worker

FILE = "flows/demo.yaml"
NAMES = ("scout", "writer", "judge", "fixer", "tester", "reviewer", "clerk", "flow-decision")
TOPICS = Output(name="topics", value_type=ValueType.ARRAY, is_required=True)
AGENTS = Catalog([*map(worker, NAMES), worker("finder", outputs=(TOPICS,), tools=("bash",))])


def world() -> World:
    """Return the real clock, and the usual bounds."""
    return World(SystemClock(), Limits(), new_id)


class Hurry(SystemClock):
    """A clock that advances by a tenth of a second at each reading."""

    def __init__(self) -> None:
        self._looks = 0

    def monotonic(self) -> float:
        """Return a time that is later each time."""
        self._looks += 1
        return self._looks / 10


def dry(
    steps: str, files: Mapping[str, str] = MappingProxyType({}), *, clock: Clock | None = None
) -> DryRun:
    """Dry-run a flow of these steps, next to other flows."""
    flow = read(steps).flow
    assert flow is not None
    others = {f"flows/{name}.yaml": TOP + text for name, text in files.items()}
    library = MemoryFlows({FILE: TOP + steps, **others})
    world = World(clock or SystemClock(), Limits(), new_id)
    return dry_run(flow, FILE, DryRunContext(get_agent=AGENTS.get, library=library, world=world))


def dry_lines(steps: str, **files: str) -> list[str]:
    """Return what a dry run finds, as lines of text."""
    return finding_lines(dry_findings(read(steps), dry(steps, files)))


def unwalked(run: DryRun) -> list[tuple[str, str]]:
    """Return the branches that no run took."""
    return [(each.step, each.branch) for each in run.branches if not each.is_walked]
