"""Texts and values as a terminal may show them."""

import json
import shlex

import pytest

from penstock.cli.terminal.plain import clean, compact, hanging, is_plain, pasted, pretty

HOSTILE = [
    ("\x1b[2Jgone", "\ufffd[2Jgone"),
    ("a\rb", "a\ufffdb"),
    ("a\r\nb\tc", "a\nb\tc"),
    ("\x9b31m", "\ufffd31m"),
    ("abc\u202etxt", "abc\ufffdtxt"),
    ("half \ud83d", "half \ufffd"),
]


@pytest.mark.parametrize(("text", "safe"), HOSTILE)
def test_a_text_cannot_steer_the_terminal(text: str, safe: str) -> None:
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
def test_no_further_line_begins_where_lines_of_penstock_begin(text: str, shown: str) -> None:
    assert hanging(text) == shown


def test_values_are_json_in_one_line_or_in_several() -> None:
    value = {"a": "é\ud83d"}
    assert compact(value) == '{"a": "é\ufffd"}'
    assert pretty(value) == '{\n  "a": "é\ufffd"\n}'


@pytest.mark.parametrize("text", ["\x9b31m", "\x1b[2J", "abc\u202etxt", "\x7f", "é 漢"])
def test_json_is_the_same_value_and_cannot_steer_the_terminal(text: str) -> None:
    for shown in (compact([text]), pretty([text])):
        assert json.loads(shown) == [text]
        assert clean(shown) == shown


@pytest.mark.parametrize("word", ["Ann", "Quick fix", "it's", "$(reboot) `x` !", "a|b", ""])
def test_a_command_is_pasted_as_its_words(word: str) -> None:
    assert shlex.split(pasted("penstock", "answer", word)) == ["penstock", "answer", word]


@pytest.mark.parametrize(
    ("text", "wanted"), [("Quick fix", True), ("", False), ("a\nb", False), ("\x1b[2J", False)]
)
def test_plain_text_is_one_printable_line(text: str, wanted: bool) -> None:
    assert is_plain(text) is wanted
