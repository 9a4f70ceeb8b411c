"""The project that a command is about."""

from pathlib import Path

import pytest

from penstock.app.runtime import Runtime
from penstock.cli.arguments.project import find, run
from penstock.cli.main import main
from penstock.core.events.events import TaskEnded
from penstock.core.profile import LOCAL
from tests.kit.entries import CHAT, ONE, message, opened


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
        "in the project: 1 error, 0 warnings; `penstock check` shows them\n"
    )


def test_the_project_is_found_from_here_upwards(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "agents")
    assert find(None).project.root == project


async def leave(runtime: Runtime) -> None:
    """Leave a message unanswered, as a killed process does."""
    await runtime.parts.log.send(CHAT, [opened(profile_id=LOCAL), message()])


async def ended(runtime: Runtime) -> int:
    return sum(isinstance(each.event, TaskEnded) for each in await runtime.parts.log.read(CHAT))


@pytest.mark.parametrize(
    "command",
    [
        ("tasks", "list"),
        ("tasks", "show", ONE),
        ("answer",),
        ("call", "hello", "name=Ann"),
        ("chat", "Hello"),
    ],
    ids=" ".join,
)
def test_a_short_command_takes_no_work_that_others_left(
    project: Path, command: tuple[str, ...]
) -> None:
    """A resumed write would be interrupted by the command's own end, and not run again."""
    run(project, leave)
    assert main([*command, "--project", str(project)]) == 0
    assert run(project, ended) == 0


@pytest.mark.parametrize(
    ("command", "tasks"),
    [(("tasks", "events", ONE, "--follow"), 1), (("chat", "-c", "And?"), 2)],
    ids=["follow", "continue"],
)
def test_unfinished_work_resumes_when_a_person_opens_it(
    project: Path, command: tuple[str, ...], tasks: int
) -> None:
    run(project, leave)
    assert main([*command, "--project", str(project)]) == 0
    assert run(project, ended) == tasks
