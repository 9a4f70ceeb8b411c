"""What goes to stdout and what to stderr."""

import logging
from collections.abc import Callable

import pytest

from penstock.cli.main import main
from penstock.cli.terminal.output import clean_logs, note, print_json, say

STEERING = "\x1b]0;pwned\x07\x9b2J\u202e"


def test_json_is_one_line_on_stdout_and_notes_go_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_json({"said": "grüß\ngott"})
    note("beside")
    assert capsys.readouterr() == ('{"said": "grüß\\ngott"}\n', "beside\n")


def test_half_a_character_is_printed_as_a_sign(capsys: pytest.CaptureFixture[str]) -> None:
    """Spec: "lone surrogates become U+FFFD"."""
    print_json({"said": "bad\ud800 thing"})
    assert capsys.readouterr().out == '{"said": "bad\ufffd thing"}\n'


@pytest.mark.parametrize("show", [say, note, lambda text: print_json([text])])
def test_nothing_that_is_shown_steers_the_terminal(
    show: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    show(f"a{STEERING}b")
    shown = "".join(capsys.readouterr())
    assert not set(STEERING[:1] + STEERING[-4:]) & set(shown) - set("2J")
    assert shown.startswith(("a", '["a'))


def test_log_lines_do_not_steer_it_either(capsys: pytest.CaptureFixture[str]) -> None:
    """An error in the log may hold what a tool or a provider said."""
    clean_logs()
    error = ValueError(STEERING)
    record = logging.LogRecord("x", 40, "x", 1, "a %s", (error,), (ValueError, error, None))
    assert logging.lastResort is not None
    shown = logging.lastResort.format(record)
    assert "\x1b" not in shown
    assert shown.count("pwned") == 2


def test_an_error_of_a_command_does_not_steer_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "show", f"task{STEERING}", "--project", "."]) == 1
    assert "\x1b" not in "".join(capsys.readouterr())
