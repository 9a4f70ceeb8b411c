"""The examples below the help of commands can be copied."""

import shlex
from typing import Any

import pytest
from typer import Context

from penstock.cli.arguments.examples import EXAMPLES, examples_of
from penstock.cli.main import main, root

LINES = [(command, line) for command, lines in EXAMPLES.items() for line in lines]


@pytest.mark.parametrize(("command", "line"), LINES, ids=[line for _, line in LINES])
def test_every_example_is_a_line_that_its_command_takes(command: str, line: str) -> None:
    words = shlex.split(line.rpartition("| ")[2])
    named = command.split()
    assert words[: len(named) + 1] == ["penstock", *named]
    parsed(words[1:])


def test_examples_stand_below_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "create", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "  penstock keys create ci --permission read" in shown.partition("Examples:")[2]


def test_a_command_that_explains_itself_has_none() -> None:
    assert examples_of("version") is None


def parsed(words: list[str]) -> None:
    """Read a command line as far as its last command, and run nothing. Raises UsageError."""
    group: Any = root()
    name = "penstock"
    while hasattr(group, "resolve_command"):
        name, group, words = group.resolve_command(Context(group), words)
    group.make_context(name, list(words))
