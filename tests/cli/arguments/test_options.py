"""Options that several commands take, and those of one command as a value."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from penstock.cli.arguments.options import AsJson, taking


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a command takes."""

    name: Annotated[str, typer.Argument(metavar="NAME")]
    times: Annotated[int, typer.Option("--times")] = 1
    as_json: AsJson = False


def test_a_command_gets_its_options_as_one_value() -> None:
    app = typer.Typer()
    given: list[Wanted] = []

    @taking(Wanted)
    def act(wanted: Wanted) -> None:
        """Do it."""
        given.append(wanted)

    app.command()(act)
    runner = CliRunner()
    assert runner.invoke(app, ["Ann", "--times", "2", "--json"]).exit_code == 0
    assert given == [Wanted(name="Ann", times=2, as_json=True)]
    assert runner.invoke(app, ["Ann", "--times", "two"]).exit_code == 2
    assert "Do it." in runner.invoke(app, ["--help"]).output
