"""The flows of a project: what keeps one from running comes with it."""

from pathlib import Path

import pytest

from penstock.flows.checks.surroundings import AgentCard, Surroundings
from penstock.flows.project_flows import ProjectFlows
from tests.flows.checks.around import SEED
from tests.flows.texts import TOP, told

TEXT = "name: n\ndescription: d\nsteps:\n  - {id: a, agent: scuot}\n"


def test_a_flow_comes_with_what_keeps_it_from_running(tmp_path: Path) -> None:
    """A flow with an error diagnostic cannot be started."""
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "one.yaml").write_text(TEXT)
    agents = {"scout": AgentCard(name="scout")}
    library = ProjectFlows(tmp_path, lambda: Surroundings(agents=agents))
    (error,) = library.find("one").errors
    assert (error.line, error.message) == (4, 'unknown agent "scuot" in step "a"')
    agents["scuot"] = AgentCard(name="scuot")
    assert library.find("one").errors == []


def test_a_flow_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    library = ProjectFlows(tmp_path, Surroundings)
    assert "late" not in library.files().files
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "late.yaml").write_text(TEXT)
    assert library.find("late").text == TEXT


@pytest.mark.parametrize("command", ["flows:new", "flows:edit"])
def test_built_in_flows_give_no_diagnostic(tmp_path: Path, command: str) -> None:
    """Built-in agents and flows give no diagnostic (section 21)."""
    outputs = ("flow_path", "command")
    agents = {
        "flow-architect": AgentCard(name="flow-architect", outputs=outputs),
        "flow-decision": AgentCard(name="flow-decision"),
    }
    library = ProjectFlows(tmp_path, lambda: Surroundings(agents=agents))
    _, diagnostics = library.check(library.files().files[command])
    assert [str(each) for each in diagnostics] == []


def test_a_flow_of_the_project_hides_the_built_in_one(tmp_path: Path) -> None:
    """A local one hides a package one, a package one hides a built-in one."""
    (tmp_path / "flows" / "flows").mkdir(parents=True)
    (tmp_path / "flows" / "flows" / "new.yaml").write_text(TEXT)
    assert ProjectFlows(tmp_path, Surroundings).find("flows:new").text == TEXT


def test_a_flow_with_an_error_is_listed_and_the_others_are_untouched(tmp_path: Path) -> None:
    """D6: A file with error diagnostics is listed as not valid and takes no part."""
    folder = tmp_path / "flows"
    folder.mkdir()
    steps = {"good": "scout", "odd": "scout, reads: x", "bad": "scuot"}
    for name, agent in steps.items():
        (folder / f"{name}.yaml").write_text(f"{TOP}- {{id: a, agent: {agent}}}\n")
    (folder / "broken.yaml").write_text("[")
    library = ProjectFlows(tmp_path, lambda: SEED)
    files = library.files().files
    assert {"bad", "broken", "good", "odd"} < set(files)
    assert told(library.check(files["bad"])[1]) == [
        '4 error unknown-agent: unknown agent "scuot" in step "a"; did you mean "scout"?'
    ]
    assert library.find("good").errors == library.find("odd").errors == []
    assert library.find("broken").errors


def test_each_flow_is_checked_beside_its_own_others(tmp_path: Path) -> None:
    project, package = tmp_path / "project", tmp_path / "package"
    for folder in (project / "flows", package):
        folder.mkdir(parents=True)
        (folder / f"{folder.name}.yaml").write_text(f"{TOP}- {{id: r, path: other.yaml}}\n")
    (package / "other.yaml").write_text(f"{TOP}- {{id: a, agent: scout}}\n")
    library = ProjectFlows(project, lambda: SEED, packages=[package])
    files = library.files().files
    assert {name: told(library.check(files[name])[1]) for name in ("flows", "package")} == {
        "flows": ['4 warning ref-missing: no flow at "other.yaml" (step "r")'],
        "package": [],
    }
