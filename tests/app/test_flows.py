"""The flows of a project, as its doors see them."""

from pathlib import Path

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile
from penstock.agents.catalog import Catalog
from penstock.app.flows import check_flows, constants_of, flows_of, project_flows
from penstock.app.opening import open as open_project
from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.chat.message import NewRun
from penstock.models.scripted import ScriptedModel
from tests.kit.flow_server import LOOK, laid
from tests.kit.flows import by_task, finish

FLOW = "name: n\ndescription: d\nsteps:\n  - {id: a, agent: scuot}\n"
AGENT = "---\nname: scout\ndescription: d\ntools:\n---\nLook.\n"


def project(folder: Path) -> Path:
    (folder / "agents").mkdir()
    (folder / "flows").mkdir()
    (folder / "agents" / "scout.md").write_text(AGENT)
    (folder / "flows" / "one.yaml").write_text(FLOW)
    (folder / "penstock.toml").write_text("")
    return folder


def test_what_is_wrong_with_flows_is_told_with_the_nearest_agent(tmp_path: Path) -> None:
    settings = load(project(tmp_path))
    found = list(check_flows(settings, load_project(settings)))
    assert [(each.file, each.line, each.suggestion) for each in found] == [
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
        authoring = runtime.parts.authoring
        assert authoring is not None
        assert authoring.dry_runs is not None
    assert envelope.output["results"]["look"]["summary"] == "seen"
    assert authoring.dry_runs.config == {"tone": "dry", "rounds": 3, "loud": True}


def test_what_is_no_constant_is_told(tmp_path: Path) -> None:
    (tmp_path / ".pi/flows").mkdir(parents=True)
    (tmp_path / ".pi/flows/config.yaml").write_text("tone: dry\nmore: [1]\n")
    settings = load(tmp_path)
    found = list(check_flows(settings, load_project(settings)))
    assert [(each.file, each.line) for each in found] == [(".pi/flows/config.yaml", 2)]
    assert constants_of(settings) == {"tone": "dry"}


def test_an_agent_that_comes_later_is_known_to_the_next_look(tmp_path: Path) -> None:
    settings, agents = load(project(tmp_path)), Catalog()
    library = flows_of(settings, agents)
    assert library.find("one").errors
    agents.add(Agent("scuot", profile=AgentProfile(file="agents/scuot.md")))
    assert not library.find("one").errors
