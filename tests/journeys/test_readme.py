"""The README, line by line: its commands print what it shows, and its flow runs."""

import asyncio
import io
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import httpx2
import pytest

import penstock
from penstock.cli.authoring.init import init
from penstock.cli.main import main
from penstock.program.opening import open as open_project
from penstock.server.application import create_application
from tests.kit.server import HERE

pytestmark = pytest.mark.conformance

ROOT = Path(penstock.__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUESTION = re.compile(r"q_[0-9a-z]+")
CHANGES = re.compile(r"(?:conv|task|msg|tc|q)_[0-9a-z]*|\d+\.\d s|\d+ tokens")
"""What is another each time: ids, times, and what the models were told by then."""
LEFT_OUT = "…"
"""A line of it matches any number of lines; at the end of a line it matches the rest."""


def _found(pattern: str) -> str:
    result = re.search(pattern, README, re.MULTILINE | re.DOTALL)
    assert result is not None
    return result[1]


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """The project beside the README, in a place of its own."""
    place = tmp_path / "examples"
    return shutil.copytree(ROOT / "examples", place, ignore=shutil.ignore_patterns(".penstock"))


@pytest.mark.slow("runs a flow in a project of its own")
def test_the_flow_of_the_readme_runs_as_shown(
    examples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = (examples / "flows/trip.yaml").read_text()
    assert shipped == _found(r"^```yaml\n(name: trip\n.*?)^```")
    where = ["--project", str(examples)]
    assert main(["flow", "check", "trip", "--strict", *where]) == 0
    capsys.readouterr()
    assert main(["flow", "run", "trip", *where]) == 4
    out = CHANGES.sub("", "".join(capsys.readouterr())).splitlines()
    shown = CHANGES.sub("", _found(r"^\$ penstock flow run trip\n(.*?)^```")).splitlines()
    assert sorted(shown) == sorted(out)


@pytest.mark.slow("runs every command of the first screen")
def test_the_first_screen_matches_the_output_of_the_commands(
    examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """9: "one screen of a real transcript": each command prints these lines, and in this order."""
    monkeypatch.chdir(examples.parent)
    monkeypatch.setattr("sys.stdin", Away())
    question = ""
    for command, shown in _screen():
        if command.endswith("&"):
            continue
        if command.startswith("curl "):
            result = asyncio.run(_streamed(examples, command))
        else:
            result = _printed(QUESTION.sub(question, command), monkeypatch)
        question = next(iter(QUESTION.findall(result)), question)
        assert _difference(_lines(shown), _lines(result)) is None, command


@pytest.mark.slow("runs a script in the sandbox")
def test_the_script_of_the_readme_calls_the_function_of_the_readme(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init(tmp_path)
    assert (
        _found(r"^```python\n(from penstock import tool\n.*?)^```")
        in (tmp_path / "tools/hello.py").read_text()
    )
    (tmp_path / "tools/greet.tool.yaml").write_text(_found(r"^```yaml\n(name: greet\n.*?)^```"))
    where = ["--project", str(tmp_path)]
    assert main(["check", "--strict", *where]) == 0
    capsys.readouterr()
    assert main(["call", "greet", "name=Ann", *where]) == 0
    assert capsys.readouterr().out == "HELLO, ANN!\n"


@pytest.mark.programs
@pytest.mark.slow("starts Python")
def test_the_first_program_prints_what_the_readme_says_without_a_key(tmp_path: Path) -> None:
    program, said = _found(r"^```python\n(.*?)^```"), _found(r'ticket\.py +# prints "(.*?)"$')
    (tmp_path / "ticket.py").write_text(program)
    command = [sys.executable, "-W", "error", "ticket.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == (said, "")


def test_the_diagram_of_the_layers_matches_the_contract() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = tools["importlinter"]["contracts"][0]["layers"]
    picture = _found(r"^```text\n( cli .*?)^```")
    shown = [re.split(r"\s{2,}", line.strip())[0] for line in picture.splitlines()]
    assert ["__main__", *shown] == layers


class Away(io.StringIO):
    """A terminal without a person."""

    def isatty(self) -> bool:
        return True


def _screen() -> Iterator[tuple[str, str]]:
    """Yield the commands of the first screen, each with what is shown below it."""
    text = _found(r"^## One screen\n.*?^```text\n(.*?)^```").replace("\\\n", "")
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def _printed(line: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Do what a line says, as a shell would; returns what a terminal shows of it."""
    shown = io.StringIO()
    for command in line.split(" && "):
        name, *arguments = shlex.split(command)
        if name == "cd":
            monkeypatch.chdir(arguments[0])
            continue
        assert name == "penstock"
        with redirect_stdout(shown), redirect_stderr(shown):
            assert main(arguments) in {0, 4}
    return shown.getvalue()


async def _streamed(project: Path, line: str) -> str:
    """Do what a line of curl says, to a server of the project; returns the body."""
    _, _, url, _, header, _, body = shlex.split(line)
    async with open_project(project) as runtime:
        transport = httpx2.ASGITransport(create_application(runtime))
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            headers = dict([header.split(": ")])
            path = url.removeprefix("http://127.0.0.1:8000")
            return (await client.post(path, content=body, headers=headers)).text


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in CHANGES.sub("", text).strip("\n").splitlines()]


def _difference(shown: Sequence[str], output: Sequence[str]) -> str | None:
    """Return the first line that is shown and was not said there, or the other way round."""
    left, is_free = list(output), False
    for line in shown:
        if line == LEFT_OUT:
            is_free = True
            continue
        while is_free and left and not _is_shown(line, left[0]):
            del left[0]
        if not left or not _is_shown(line, left.pop(0)):
            return line
        is_free = False
    return left[0] if left and not is_free else None


def _is_shown(shown: str, output: str) -> bool:
    begin = shown.removesuffix(LEFT_OUT)
    return output.startswith(begin.rstrip()) if begin != shown else output == shown
