"""Shared options, options of a command as one value, and JSON inputs."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from penstock.app.runtime import Runtime
from penstock.cli.options import read_object, taking
from penstock.cli.project import run_with_runtime, selected
from penstock.cli.terminal.output import AsJson
from penstock.core.ids import ASSISTANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of a command."""

    name: Annotated[str, typer.Argument(metavar="NAME")]
    times: Annotated[int, typer.Option("--times")] = 1
    as_json: AsJson = False


def test_a_command_gets_its_options_as_one_value() -> None:
    app = typer.Typer()
    collected: list[Wanted] = []

    @taking(Wanted)
    def act(options: Wanted) -> None:
        """Do it."""
        collected.append(options)

    app.command()(act)
    runner = CliRunner()
    assert runner.invoke(app, ["Ann", "--times", "2", "--json"]).exit_code == 0
    assert collected == [Wanted(name="Ann", times=2, as_json=True)]
    assert runner.invoke(app, ["Ann", "--times", "two"]).exit_code == 2
    assert "Do it." in runner.invoke(app, ["--help"]).output


def test_an_input_is_a_text_a_file_or_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"a": 2}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 3}'))
    values = [read_object(each, "--input") for each in ('{"a": 1}', f"@{file}", "-", None)]
    assert values == [{"a": 1}, {"a": 2}, {"a": 3}, {}]


def test_a_lone_surrogate_in_an_input_is_replaced(tmp_path: Path) -> None:
    """As in bodies of the server: a lone surrogate cannot be encoded."""
    file = tmp_path / "x.json"
    file.write_text('{"a": "\\ud83d\\ude00", "b\\ud800": ["\\uD83D"]}')
    assert read_object(f"@{file}", "--mocks") == {"a": "😀", "b�": ["�"]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", "--input must be JSON: "),
        ("[]", "--input must be a JSON object, found array"),
        ('{"a": ' + "[" * 100_000, "--input is too deeply nested JSON"),
        ("@nowhere.json", "--input cannot read nowhere.json: "),
    ],
)
def test_a_value_that_is_not_an_object_is_refused(value: str, message: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        read_object(value, "--input")
    assert str(refused.value).startswith(message)


def test_stdin_that_is_not_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8"))
    with pytest.raises(typer.BadParameter, match="--input cannot read stdin: "):
        read_object("-", "--input")


def chosen(project: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Select skills in a project that is opened for it."""

    async def work(runtime: Runtime) -> tuple[str, ...]:
        return selected(runtime, ASSISTANT, names)

    return run_with_runtime(project, work)


def test_named_skills_are_selected_in_their_order(project: Path) -> None:
    assert chosen(project, ["write_csv", "read_csv"]) == ("write_csv", "read_csv")


def test_every_unknown_skill_is_named_with_the_nearest(project: Path) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        chosen(project, ["read_cvs", "read_csv", "nonsense"])
    result = refused.value.message
    assert "--skill: no skill 'read_cvs'. Did you mean 'read_csv'?" in result
    assert "--skill: no skill 'nonsense'." in result
