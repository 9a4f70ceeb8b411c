"""Dry runs among the agents and flows of a project."""

from functools import partial
from pathlib import Path

import pytest

from penstock.agents.catalog import Catalog
from penstock.app.dry_runs import DryRuns
from penstock.app.opening import open as open_project
from penstock.core.clock import SystemClock
from penstock.core.ids import new_id
from penstock.core.limits import Limits, World
from penstock.flows.checks.context import AgentCard, CheckContext
from penstock.flows.project.files import read_flow_file
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.reading.flow import read_flow
from penstock.models.scripted import ScriptedModel
from penstock.store.projections.projections import Page
from penstock.testing.flows import MemoryFlows
from tests.kit.flow_server import LOOK, laid
from tests.kit.flows import HEAD, WORKERS

WORLD = World(SystemClock(), Limits(), new_id)


def test_a_flow_is_run_with_the_constants_of_the_project() -> None:
    text = LOOK.replace('"look"', '"${{config.tone}}${{config.none}}"')
    runs = DryRuns(
        agents=Catalog(WORKERS), flows=MemoryFlows({}), world=WORLD, config={"tone": "dry"}
    )
    found, problems = runs.of(read_flow(text, "flows/look.yaml"))
    assert found.reached == ("look",)
    assert [each.code for each in problems] == ["dry-template-empty"]


def test_a_flow_of_a_package_finds_its_own_flows(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "sub.yaml").write_text(LOOK)
    (tmp_path / "package" / "main.yaml").write_text(
        f"{HEAD}steps:\n  - {{id: r, path: sub.yaml}}\n"
    )
    around = CheckContext(agents={"scout": AgentCard(name="scout")})
    flows = ProjectFlows(tmp_path / "p", lambda: around, packages=[tmp_path / "package"])
    runs = DryRuns(agents=Catalog(WORKERS), flows=flows, world=WORLD)
    file = flows.files().files["main"]
    found, problems = runs.of(read_flow_file(file), file)
    assert (found.failures, problems) == ((), [])
    assert set(found.results) == {"r"}


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
            lambda: authoring.callbacks.write_flow("late", text)
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


BUSY = """\
name: busy
description: Does everything that a flow can do
steps:
  - {id: make, agent: worker, inputs: {text: "file://secret.txt"}}
  - {id: build, command: "touch built", on_error: ask}
  - {id: count, type: code, outputs: [{name: n, type: number}]}
  - {id: ask, question: "Go on?", branches: {Yes: done, No: make}, max_iterations: 1}
  - {id: done, agent: worker}
"""
WORKER = "---\nname: worker\ndescription: d\ntools: write, bash, ask_user\n---\nWork.\n"


def _files(root: Path) -> set[str]:
    return {each.name for each in root.rglob("*") if each.is_file()}


@pytest.mark.slow("reads a module of a code step")
async def test_nothing_real_happens(tmp_path: Path) -> None:
    """No tool, shell, handler, network or person has a part in it."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/worker.md").write_text(WORKER)
    module = tmp_path / "flows/handlers/busy/count.ts"
    module.parent.mkdir(parents=True)
    module.write_text('export default () => { throw new Error("it ran"); };\n')
    before = _files(tmp_path)
    model = ScriptedModel([])
    settings = {
        "models": {"default": "scripted"},
        "flows": {"shell": True},
        "data_dir": str(tmp_path.parent / f"{tmp_path.name}-data"),
    }
    async with open_project(tmp_path, models=[model], settings=settings) as runtime:
        authoring = runtime.parts.authoring
        assert authoring
        write = partial(authoring.callbacks.write_flow, "busy", BUSY)
        written = await runtime.parts.invoker.threads.run(write)
        tasks, _ = await runtime.parts.projections.tasks(page=Page())
    assert written["dryRun"]["reached"] == ["make", "build", "count", "ask", "done"]
    assert all(each["walked"] for each in written["dryRun"]["branches"])
    assert written["dryRun"]["problems"] == []
    assert (model.requests, tasks) == ([], [])
    assert _files(tmp_path) - before == {"busy.yaml"}
