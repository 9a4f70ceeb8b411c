"""The flows of a project: the library, its checks, and dry runs."""

from functools import partial
from pathlib import Path

import pytest

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile
from penstock.agents.catalog import Catalog
from penstock.app.authoring import DryRuns
from penstock.app.flows import check_flows, constants_of, flows_of, project_flows
from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.chat.requests import NewRun
from penstock.core.clock import SystemClock
from penstock.core.ids import new_id
from penstock.core.limits import Limits, World
from penstock.flows.checks.context import AgentCard, CheckContext
from penstock.flows.parsing import read_flow
from penstock.flows.project.files import read_flow_file
from penstock.flows.project.flows import ProjectFlows
from penstock.models.scripted import ScriptedModel
from penstock.program.opening import open as open_project
from penstock.store.projections import Page
from penstock.testing.flows import MemoryFlows
from tests.kit.flow_server import LOOK, laid
from tests.kit.flows import HEAD, WORKERS, by_task, finish

FLOW = "name: n\ndescription: d\nsteps:\n  - {id: a, agent: scuot}\n"
AGENT = "---\nname: scout\ndescription: d\ntools:\n---\nLook.\n"


def project(folder: Path) -> Path:
    (folder / "agents").mkdir()
    (folder / "flows").mkdir()
    (folder / "agents" / "scout.md").write_text(AGENT)
    (folder / "flows" / "one.yaml").write_text(FLOW)
    (folder / "penstock.toml").write_text("")
    return folder


def test_errors_of_flows_name_the_nearest_agent(tmp_path: Path) -> None:
    settings = load(project(tmp_path))
    findings = list(check_flows(settings, load_project(settings)))
    assert [(each.file, each.line, each.suggestion) for each in findings] == [
        ("flows/one.yaml", 4, 'did you mean "scout"?')
    ]


def test_the_library_of_a_project_has_its_flows_and_the_built_in_ones(tmp_path: Path) -> None:
    settings = load(project(tmp_path))
    library = project_flows(settings, load_project(settings))
    assert {"one", "flows:new", "flows:edit"} == set(library.files().files)


async def test_constants_of_both_files_are_in_templates(tmp_path: Path) -> None:
    """§1: flow constants, `[flows.config]` in `penstock.toml`, `.pi/flows/config.yaml`."""
    task = 'task: "${{config.tone}} ${{config.rounds}} ${{config.loud}}"'
    laid(tmp_path, {"look.yaml": LOOK.replace('task: "look"', task)})
    (tmp_path / ".pi/flows").mkdir(parents=True)
    (tmp_path / ".pi/flows/config.yaml").write_text("tone: wet\nrounds: 3\nloud: true\n")
    (tmp_path / "penstock.toml").write_text('[flows.config]\ntone = "dry"\n')
    model = ScriptedModel(by_task({"dry 3 true": finish("seen")}))
    settings = {"models": {"default": model.card.model_id}}
    async with open_project(tmp_path, models=[model], settings=settings) as runtime:
        envelope = await runtime.run_flow(NewRun(command="look"))
        authoring = runtime.parts.flows.authoring
        assert authoring is not None
        assert authoring.dry_runs is not None
    assert envelope.output["results"]["look"]["summary"] == "seen"
    assert authoring.dry_runs.config == {"tone": "dry", "rounds": 3, "loud": True}


def test_an_invalid_constant_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".pi/flows").mkdir(parents=True)
    (tmp_path / ".pi/flows/config.yaml").write_text("tone: dry\nmore: [1]\n")
    settings = load(tmp_path)
    findings = list(check_flows(settings, load_project(settings)))
    assert [(each.file, each.line) for each in findings] == [(".pi/flows/config.yaml", 2)]
    assert constants_of(settings) == {"tone": "dry"}


def test_the_next_check_knows_an_agent_that_was_added(tmp_path: Path) -> None:
    settings, agents = load(project(tmp_path)), Catalog()
    library = flows_of(settings, agents)
    assert library.find("one").errors
    agents.add(Agent("scuot", profile=AgentProfile(file="agents/scuot.md")))
    assert not library.find("one").errors


WORLD = World(SystemClock(), Limits(), new_id)


def test_a_flow_is_run_with_the_constants_of_the_project() -> None:
    text = LOOK.replace('"look"', '"${{config.tone}}${{config.none}}"')
    runs = DryRuns(
        agents=Catalog(WORKERS), flows=MemoryFlows({}), world=WORLD, config={"tone": "dry"}
    )
    dry_run, problems = runs.run(read_flow(text, "flows/look.yaml"))
    assert dry_run.reached == ("look",)
    assert [each.code for each in problems] == ["dry-template-empty"]


def test_a_flow_of_a_package_finds_its_own_flows(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "sub.yaml").write_text(LOOK)
    (tmp_path / "package" / "main.yaml").write_text(
        f"{HEAD}steps:\n  - {{id: r, path: sub.yaml}}\n"
    )
    check_context = CheckContext(agents={"scout": AgentCard(name="scout")})
    flows = ProjectFlows(tmp_path / "p", lambda: check_context, packages=[tmp_path / "package"])
    runs = DryRuns(agents=Catalog(WORKERS), flows=flows, world=WORLD)
    file = flows.files().files["main"]
    dry_run, problems = runs.run(read_flow_file(file), file)
    assert (dry_run.failures, problems) == ((), [])
    assert set(dry_run.results) == {"r"}


def test_a_flow_that_cannot_be_read_is_not_run() -> None:
    runs = DryRuns(agents=Catalog(), flows=MemoryFlows({}), world=WORLD)
    assert runs.run(read_flow("steps: 5\n"))[0].runs == 0


async def test_an_open_project_runs_written_flows_dry(tmp_path: Path) -> None:
    """The architect's `flow_write` runs it …; they never block writing."""
    async with open_project(laid(tmp_path)) as runtime:
        authoring = runtime.parts.flows.authoring
        assert authoring
        text = LOOK.replace("task:", "end: true, task:") + "  - {id: late, agent: scout}\n"
        written = await runtime.parts.tools.invoker.threads.run(
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
            {"line": 5, "severity": "warning", "message": 'none of 2 runs reached step "late"'}
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
async def test_a_dry_run_has_no_effects(tmp_path: Path) -> None:
    """A dry run calls no tool, shell, handler, network or person."""
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
        authoring = runtime.parts.flows.authoring
        assert authoring
        write = partial(authoring.callbacks.write_flow, "busy", BUSY)
        written = await runtime.parts.tools.invoker.threads.run(write)
        tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
    assert written["dryRun"]["reached"] == ["make", "build", "count", "ask", "done"]
    assert all(each["walked"] for each in written["dryRun"]["branches"])
    assert written["dryRun"]["problems"] == []
    assert (model.requests, tasks) == ([], [])
    assert _files(tmp_path) - before == {"busy.yaml"}
