"""Commands that start programs: deno for type checks, and penstock itself at a terminal."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.app.project import load_project
from penstock.app.script_types.type_check import check_types
from penstock.app.settings import load
from penstock.cli.authoring.init import init
from penstock.cli.main import main
from tests.kit.manifests import tool, write

Run = Callable[..., tuple[int, str, str]]
pytestmark = [pytest.mark.programs, pytest.mark.slow("starts programs")]


@pytest.fixture(autouse=True)
def _cache(machine_code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(machine_code))


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    init(tmp_path)
    capsys.readouterr()
    return tmp_path


@pytest.fixture
def run(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--project", str(project)])
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("noun", "folder", "tool"), [("tool", "tools", "wave"), ("skill", "skills/wave", "wave_greet")]
)
def test_new_tools_and_skills_work_at_once(
    run: Run, project: Path, noun: str, folder: str, tool: str
) -> None:
    code, out, err = run("new", noun, "wave")
    assert (code, err) == (0, "")
    written = [f"wave.{noun}.yaml", "wave.mts", "tsconfig.json", "flo.d.ts"]
    assert out.startswith("".join(f"  {folder}/{name}\n" for name in written))
    assert run("check", "--strict")[0] == 0
    assert run("types", "--check")[0] == 0
    code, out, err = run("run-tool", tool, "--input", '{"name": "Ann"}')
    assert json.loads(out)["output"] == {"greeting": "Hello, Ann!"}
    assert err == "info: greeting Ann\n"
    assert check_types(load_project(load(project))) == []


def test_types_are_checked_on_request(run: Run, project: Path) -> None:
    """`--types`: also the type checker; its findings have code `type-error`."""
    script = 'script: "export const run = (): string => 1;"'
    write(project, {"a.tool.yaml": tool().replace('script: "export function run() {}"', script)})
    assert run("check")[0] == 0
    code, out, _ = run("check", "--types")
    assert code == 1
    assert out == (
        "a.tool.yaml:4:69: error type-error: Type 'number' is not assignable to type 'string'. "
        "(TS2322)\n2 tools, 0 skills, 0 flows, 1 error, 0 warnings\n"
    )


def test_one_line_of_the_shell_puts_the_command_on_the_path(tmp_path: Path) -> None:
    """README: `make install`, then its first commands, in a shell without anything."""
    bare = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/.local/bin:/usr/bin:/bin"}

    def shell(line: str, folder: Path, **more: str) -> str:
        ran = subprocess.run(
            ["/bin/sh", "-ec", line],
            cwd=folder,
            env=bare | more,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    root = Path(penstock.__file__).parents[1]
    assert "    make install " in (root / "README.md").read_text()
    assert "export PATH" not in shell("make install", root)
    first = "penstock init demo && cd demo && penstock call hello name=Ann"
    assert '"greeting": "Hello, Ann!"' in shell(first, tmp_path)
    hint = shell("make install", root, PATH="/usr/bin:/bin").splitlines()[-1]
    line = hint.partition("yet: ")[2]
    assert shell(f"{line}; command -v penstock", tmp_path, PATH="/usr/bin:/bin").split() == [
        f"{tmp_path}/.local/bin/penstock"
    ]


class Terminal:
    """`penstock chat` in a process of its own, at a terminal."""

    def __init__(self, project: Path) -> None:
        self._mine, theirs = os.openpty()
        self._seen = b""
        self.process = subprocess.Popen(
            (sys.executable, "-m", "penstock", "chat", "--project", str(project)),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)

    def write(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def read_to(self, wanted: str) -> None:
        while wanted.encode() not in self._seen:
            assert select.select([self._mine], [], [], 30)[0], self._seen
            self._seen += os.read(self._mine, 4096)
        self._seen = self._seen.partition(wanted.encode())[2]

    def close(self) -> int:
        code = self.process.wait(20)
        os.close(self._mine)
        return code


def test_tab_completes_a_command_and_the_tool_behind_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal(project)
    terminal.read_to("assistant> ")
    terminal.write("/ca\thel\tname=Bo\n")
    terminal.read_to("/call hello name=Bo")
    terminal.read_to("Hello, Bo!")
    terminal.read_to("assistant> ")
    terminal.write("/ex\t\n")
    assert terminal.close() == 0
