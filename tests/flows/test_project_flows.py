"""The flows of a project: what keeps one from running comes with it."""

from pathlib import Path

import pytest

from penstock.flows.checks.surroundings import AgentCard, Surroundings
from penstock.flows.project_flows import ProjectFlows

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
