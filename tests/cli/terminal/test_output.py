"""Output on stdout and stderr, without control characters."""

import json
import logging
import shlex
from collections.abc import Callable

import pytest

from penstock.cli.main import main
from penstock.cli.terminal.output import (
    clean,
    clean_logs,
    compact,
    hanging,
    is_plain,
    note,
    pasted,
    pretty,
    print_json,
    say,
)

STEERING = "\x1b]0;pwned\x07\x9b2J\u202e"


def test_json_is_one_line_on_stdout_and_notes_go_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_json({"said": "grüß\ngott"})
    note("beside")
    assert capsys.readouterr() == ('{"said": "grüß\\ngott"}\n', "beside\n")


def test_a_lone_surrogate_is_printed_as_a_replacement(capsys: pytest.CaptureFixture[str]) -> None:
    """Spec: "lone surrogates become U+FFFD"."""
    print_json({"said": "bad\ud800 thing"})
    assert capsys.readouterr().out == '{"said": "bad\ufffd thing"}\n'


@pytest.mark.parametrize("show", [say, note, lambda text: print_json([text])])
def test_printed_text_cannot_control_the_terminal(
    show: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    show(f"a{STEERING}b")
    shown = "".join(capsys.readouterr())
    assert not set(STEERING[:1] + STEERING[-4:]) & set(shown) - set("2J")
    assert shown.startswith(("a", '["a'))


def test_log_lines_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A logged error may quote a tool or a provider."""
    clean_logs()
    error = ValueError(STEERING)
    record = logging.LogRecord("x", 40, "x", 1, "a %s", (error,), (ValueError, error, None))
    assert logging.lastResort is not None
    shown = logging.lastResort.format(record)
    assert "\x1b" not in shown
    assert shown.count("pwned") == 2


def test_an_error_of_a_command_cannot_control_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tasks", "show", f"task{STEERING}", "--project", "."]) == 1
    assert "\x1b" not in "".join(capsys.readouterr())


HOSTILE = [
    ("\x1b[2Jgone", "\ufffd[2Jgone"),
    ("a\rb", "a\ufffdb"),
    ("a\r\nb\tc", "a\nb\tc"),
    ("\x9b31m", "\ufffd31m"),
    ("abc\u202etxt", "abc\ufffdtxt"),
    ("half \ud83d", "half \ufffd"),
]


@pytest.mark.parametrize(("text", "safe"), HOSTILE)
def test_clean_text_has_no_control_characters(text: str, safe: str) -> None:
    assert clean(text) == safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one", "one"),
        ("one\ntwo\r\n\nthree", "one\n  │ two\n  │ \n  │ three"),
        ("Go on?\n✓ done", "Go on?\n  │ ✓ done"),
        ("a\r✓ done", "a\ufffd✓ done"),
    ],
)
def test_further_lines_start_with_a_bar(text: str, shown: str) -> None:
    assert hanging(text) == shown


def test_values_are_json_in_one_line_or_in_several() -> None:
    value = {"a": "é\ud83d"}
    assert compact(value) == '{"a": "é\ufffd"}'
    assert pretty(value) == '{\n  "a": "é\ufffd"\n}'


@pytest.mark.parametrize("text", ["\x9b31m", "\x1b[2J", "abc\u202etxt", "\x7f", "é 漢"])
def test_json_is_the_same_value_without_control_characters(text: str) -> None:
    for shown in (compact([text]), pretty([text])):
        assert json.loads(shown) == [text]
        assert clean(shown) == shown


@pytest.mark.parametrize("word", ["Ann", "Quick fix", "it's", "$(reboot) `x` !", "a|b", ""])
def test_a_command_is_pasted_as_its_words(word: str) -> None:
    assert shlex.split(pasted("penstock", "answer", word)) == ["penstock", "answer", word]


@pytest.mark.parametrize(
    ("text", "expected"), [("Quick fix", True), ("", False), ("a\nb", False), ("\x1b[2J", False)]
)
def test_plain_text_is_one_printable_line(text: str, expected: bool) -> None:
    assert is_plain(text) is expected
