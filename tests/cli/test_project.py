"""The project that a command is about."""

from pathlib import Path

import pytest

from penstock.app.runtime import Runtime
from penstock.cli.project import find, run


async def name_agents(runtime: Runtime) -> list[str]:
    return [agent.name for agent in runtime.parts.agents]


def test_a_project_is_opened_for_some_work(project: Path) -> None:
    assert "assistant" in run(project, name_agents)
    assert (project / ".penstock" / "penstock.db").exists()


def test_findings_are_counted_and_the_rest_works(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "agents" / "bad.md").write_text("no fence")
    assert "assistant" in run(project, name_agents)
    assert capsys.readouterr().err == (
        "in the project: 1 errors, 0 warnings; `penstock check` shows them\n"
    )


def test_the_project_is_found_from_here_upwards(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "agents")
    assert find(None).project.root == project
