"""The project of a command, its findings and skills."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.app.runtime import Runtime
from penstock.cli.main import main
from penstock.cli.project import find, run_with_runtime
from penstock.core.events.events import TaskEnded
from penstock.core.profile import LOCAL
from tests.kit.log_entries import CHAT, ONE, message, opened
from tests.kit.project import ProjectFolder


async def name_agents(runtime: Runtime) -> list[str]:
    return [agent.name for agent in runtime.parts.chat.agents]


def test_a_project_is_opened_and_closed_around_work(project: Path) -> None:
    assert "assistant" in run_with_runtime(project, name_agents)
    assert (project / ".penstock" / "penstock.db").exists()


def test_findings_are_counted_and_other_tools_work(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "agents" / "bad.md").write_text("no fence")
    assert "assistant" in run_with_runtime(project, name_agents)
    assert capsys.readouterr().err == (
        "in the project: 1 error, 0 warnings; `penstock check` shows them\n"
    )


def test_the_project_is_the_nearest_parent_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "agents")
    assert find(None).project.root == project


async def leave(runtime: Runtime) -> None:
    """Leave a message unanswered, as a killed process does."""
    await runtime.parts.storage.log.send(CHAT, [opened(profile_id=LOCAL), message()])


async def ended(runtime: Runtime) -> int:
    return sum(
        isinstance(each.event, TaskEnded) for each in await runtime.parts.storage.log.read(CHAT)
    )


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
def test_a_short_command_does_not_resume_unfinished_work(
    project: Path, command: tuple[str, ...]
) -> None:
    """A resumed write would be interrupted by the command's own end, and not run again."""
    run_with_runtime(project, leave)
    assert main([*command, "--project", str(project)]) == 0
    assert run_with_runtime(project, ended) == 0


@pytest.mark.parametrize(
    ("command", "tasks"),
    [(("tasks", "events", ONE, "--follow"), 1), (("chat", "-c", "And?"), 2)],
    ids=["follow", "continue"],
)
def test_unfinished_work_resumes_when_a_person_opens_it(
    project: Path, command: tuple[str, ...], tasks: int
) -> None:
    run_with_runtime(project, leave)
    assert main([*command, "--project", str(project)]) == 0
    assert run_with_runtime(project, ended) == tasks


pytestmark = pytest.mark.slow("reads scripts")
Run = Callable[..., tuple[int, str, str]]
LODASH = "import x from 'lodash';\nexport const run = () => x;"
SAYS = "error import-bare: package import"


@pytest.fixture
def scripts(project: Path, machine_code: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """A project with two broken scripts, an invalid manifest, and a tool with a warning."""
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(machine_code))
    folder = ProjectFolder(project, machine_code)
    folder.tool("wrong", LODASH)
    folder.tool("other", LODASH)
    folder.tool("odd", "export const run = () => 1;", script_tools="[hello]", direct_call="false")
    folder.write("tools/torn.tool.yaml", "name: [")
    return folder


@pytest.mark.parametrize(
    "command",
    [("call", "hello", "name=Ann"), ("tools", "show", "hello"), ("tasks", "list"), ("types",)],
)
def test_findings_of_other_tools_are_counted(
    scripts: ProjectFolder, run: Run, command: tuple[str, ...]
) -> None:
    err = run(*command)[2]
    assert "in the project: 3 errors, 1 warning; `penstock check` shows them\n" in err
    assert SAYS not in err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("tools", "grants", "wrong"), "tools/wrong.mts:1:15: error import-bare"),
        (("run-tool", "odd"), "tools/odd.tool.yaml:6:1: warning script-tools-unused"),
        (("run-tool", "torn"), "tools/torn.tool.yaml:1:8: error yaml-syntax"),
    ],
)
def test_findings_of_the_tool_are_printed(
    scripts: ProjectFolder, run: Run, command: tuple[str, ...], message: str
) -> None:
    err = run(*command)[2]
    assert err.startswith(message)
    assert err.count("elsewhere in the project") == 1


def test_findings_in_the_output_are_not_repeated(scripts: ProjectFolder, run: Run) -> None:
    _, out, err = run("run-tool", "wrong")
    assert json.loads(out)["error"]["details"]["diagnostics"][0]["code"] == "import-bare"
    assert SAYS not in err
    assert SAYS not in run("tools", "show", "wrong")[2]
    _, out, err = run("call", "wrong")
    assert (SAYS in out, SAYS in err) == (True, False)
    assert SAYS not in run("doctor")[2]


def test_a_project_without_findings_prints_nothing(project: Path, run: Run) -> None:
    assert run("tools", "show", "hello")[2] == ""
