"""Dry runs among the agents and flows of a project."""

from pathlib import Path

from penstock.agents.catalog import Catalog
from penstock.app.dry_runs import DryRuns
from penstock.app.opening import open as open_project
from penstock.core.clock import SystemClock
from penstock.core.ids import new_id
from penstock.core.limits import Limits
from penstock.core.world import World
from penstock.flows.reading import read_flow
from penstock.testing.flows import MemoryFlows
from tests.kit.flow_server import LOOK, laid
from tests.kit.flows import WORKERS

WORLD = World(SystemClock(), Limits(), new_id)


def test_a_flow_is_run_with_the_constants_of_the_project() -> None:
    text = LOOK.replace('"look"', '"${{config.tone}}${{config.none}}"')
    runs = DryRuns(
        agents=Catalog(WORKERS), flows=MemoryFlows({}), world=WORLD, config={"tone": "dry"}
    )
    found, problems = runs.of(read_flow(text, "flows/look.yaml"))
    assert found.reached == ("look",)
    assert [each.code for each in problems] == ["dry-template-empty"]


def test_a_flow_that_cannot_be_read_is_not_run() -> None:
    runs = DryRuns(agents=Catalog(), flows=MemoryFlows({}), world=WORLD)
    assert runs.of(read_flow("steps: 5\n"))[0].runs == 0


async def test_an_open_project_runs_dry_what_is_written(tmp_path: Path) -> None:
    """The architect's `flow_write` runs it …; they never block writing."""
    async with open_project(laid(tmp_path)) as runtime:
        authoring = runtime.parts.authoring
        assert authoring
        text = LOOK.replace("task:", "end: true, task:") + "  - {id: late, agent: scout}\n"
        written = await runtime.parts.invoker.threads.run(
            lambda: authoring.errand.write_flow("late", text)
        )
    assert written["written"]
    assert written["diagnostics"] == []
    assert written["dryRun"] == {
        "runs": 2,
        "starts": 2,
        "reached": ["look"],
        "branches": [],
        "complete": True,
        "problems": [
            {"line": 5, "severity": "warning", "message": 'no run of 2 reached step "late"'}
        ],
    }
