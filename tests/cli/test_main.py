"""The table of commands."""

import errno
import io
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from typing import Any

import pytest
from typer import Context

from penstock.cli.main import COMMANDS, EXAMPLES, examples_of, main, root

COSTLY = ("alembic", "fastapi", "httpx2", "pydantic", "rich", "sqlalchemy", "starlette", "uvicorn")
WHAT_IS_LOADED = f"""
import sys
from penstock.cli.main import main
main(["--help"])
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(*sorted(loaded & set({COSTLY})), file=sys.stderr)
"""


@pytest.mark.programs
def test_help_loads_no_database_no_server_and_no_provider() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WHAT_IS_LOADED], capture_output=True, text=True, check=True
    )
    assert "init" in ran.stdout
    assert ran.stderr.split() == []


def test_every_command_has_a_help_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(row.sentence.endswith(".") for row in COMMANDS)
    assert all(f"  {row.name} " in out for row in COMMANDS)


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_command_has_its_own_help(row: object, capsys: pytest.CaptureFixture[str]) -> None:
    name = getattr(row, "name", "")
    assert main([name, "--help"]) == 0
    assert f"Usage: penstock {name}" in capsys.readouterr().out


class FullFile(io.StringIO):
    """A file on a disk without space."""

    def write(self, text: str, /) -> int:
        """Fail."""
        raise OSError(errno.ENOSPC, "No space left on device", text[:0])


def test_a_full_disk_behind_stdout_is_one_line_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with redirect_stdout(FullFile()):
        assert main(["version"]) == 1
    assert capsys.readouterr().err == "Error: cannot write: No space left on device\n"


WRONG_USAGE = [
    (["vesion"], "No such command 'vesion'. Did you mean 'version'?"),
    (["init", "--forc"], "No such option: --forc"),
    (["init", "a", "b"], "Got unexpected extra argument"),
    ([], "Usage: penstock"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_USAGE)
def test_wrong_usage_exits_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_an_error_is_one_line_and_exits_with_1(
    tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path)]) == 0
    assert main(["init", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("Error: penstock.toml, agents/assistant.md, ")


def test_the_version_is_also_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("penstock ")


LINES = [(command, line) for command, lines in EXAMPLES.items() for line in lines]


@pytest.mark.parametrize(("command", "line"), LINES, ids=[line for _, line in LINES])
def test_every_example_is_accepted_by_its_command(command: str, line: str) -> None:
    words = shlex.split(line.rpartition("| ")[2])
    named = command.split()
    assert words[: len(named) + 1] == ["penstock", *named]
    parsed(words[1:])


def test_examples_are_below_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "create", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "  penstock keys create ci --permission read" in shown.partition("Examples:")[2]


def test_a_simple_command_has_no_examples() -> None:
    assert examples_of("version") is None


def parsed(words: list[str]) -> None:
    """Read a command line as far as its last command, and run nothing. Raises UsageError."""
    group: Any = root()
    name = "penstock"
    while hasattr(group, "resolve_command"):
        name, group, words = group.resolve_command(Context(group), words)
    group.make_context(name, list(words))
