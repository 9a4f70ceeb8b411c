"""The flows of a project, as its doors see them."""

from pathlib import Path

from penstock.agents.agent import Agent
from penstock.agents.catalog import Catalog
from penstock.agents.charter import Charter
from penstock.app.flows import check_flows, flows_of, project_flows
from penstock.app.project import load_project
from penstock.app.settings import load

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


def test_an_agent_that_comes_later_is_known_to_the_next_look(tmp_path: Path) -> None:
    settings, agents = load(project(tmp_path)), Catalog()
    library = flows_of(settings, agents)
    assert library.find("one").errors
    agents.add(Agent("scuot", charter=Charter()))
    assert not library.find("one").errors
