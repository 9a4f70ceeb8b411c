"""Errors and warnings of a project's files, printed next to a command's own output."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.project import ProjectFolder

pytestmark = pytest.mark.slow("reads scripts")
Run = Callable[..., tuple[int, str, str]]
LODASH = "import x from 'lodash';\nexport const run = () => x;"
SAYS = "error import-bare: package import"


@pytest.fixture
def scripts(project: Path, machine_code: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """A project with two broken scripts, a manifest that is none, and a tool with a warning."""
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
    told = run(*command)[2]
    assert "in the project: 3 errors, 1 warning; `penstock check` shows them\n" in told
    assert SAYS not in told


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("tools", "grants", "wrong"), "tools/wrong.mts:1:15: error import-bare"),
        (("run-tool", "odd"), "tools/odd.tool.yaml:6:1: warning script-tools-unused"),
        (("run-tool", "torn"), "tools/torn.tool.yaml:1:8: error yaml-syntax"),
    ],
)
def test_findings_of_the_tool_are_printed(
    scripts: ProjectFolder, run: Run, command: tuple[str, ...], said: str
) -> None:
    told = run(*command)[2]
    assert told.startswith(said)
    assert told.count("elsewhere in the project") == 1


def test_findings_in_the_output_are_not_repeated(scripts: ProjectFolder, run: Run) -> None:
    _, out, told = run("run-tool", "wrong")
    assert json.loads(out)["error"]["details"]["diagnostics"][0]["code"] == "import-bare"
    assert SAYS not in told
    assert SAYS not in run("tools", "show", "wrong")[2]
    _, out, told = run("call", "wrong")
    assert (SAYS in out, SAYS in told) == (True, False)
    assert SAYS not in run("doctor")[2]


def test_a_project_without_findings_prints_nothing(project: Path, run: Run) -> None:
    assert run("tools", "show", "hello")[2] == ""
