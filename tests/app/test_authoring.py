"""Agents and flows that the tools of the architect write in an open project."""

from pathlib import Path

from penstock.agents.agent_file import KnownNames
from penstock.agents.catalog import Catalog
from penstock.app.authoring import ProjectAgents, ProjectAuthoring
from penstock.flows.checks.context import CheckContext, cards_of
from penstock.flows.project.flows import ProjectFlows
from penstock.tools.resources import ProjectFolder

AGENT = "---\nname: scout\ndescription: d\ntools: [look]\n---\n"
FLOW = "name: n\ndescription: d\nsteps: [{id: a, agent: scout}]\n"


def over(root: Path, known: KnownNames) -> tuple[ProjectAuthoring, Catalog]:
    catalog = Catalog()
    flows = ProjectFlows(root, lambda: CheckContext(agents=cards_of(catalog)))
    return ProjectAuthoring(ProjectFolder(root=root), ProjectAgents(catalog, known), flows), catalog


def test_a_written_agent_is_known_after_reading_again(tmp_path: Path) -> None:
    authoring, catalog = over(tmp_path, KnownNames(tools=["look"]))
    assert authoring.write_agent("scout", AGENT)["written"]
    assert catalog.find_in_files("scout") is None
    report = authoring.rediscover()
    assert catalog.find_in_files("scout") is not None
    assert ("scout" in report["agents"], "n" in report["flows"]) == (True, False)
    assert authoring.callbacks.write_flow("n", FLOW)["written"]
    assert "n" in authoring.rediscover()["flows"]


def test_agents_are_checked_against_the_newest_edition(tmp_path: Path) -> None:
    authoring, _ = over(tmp_path, KnownNames(tools=[]))
    assert authoring.write_agent("scout", AGENT)["diagnostics"] != []
    authoring.agents.renew(KnownNames(tools=["look"]))
    assert authoring.write_agent("scout", AGENT)["diagnostics"] == []


def test_broken_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/bad.md").write_text("no")
    authoring, _ = over(tmp_path, KnownNames())
    (diagnostic,) = authoring.rediscover()["diagnostics"]
    assert diagnostic.startswith("agents/bad.md:1:1: error")
