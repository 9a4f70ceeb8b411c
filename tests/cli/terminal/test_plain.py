"""Texts and values as a terminal may show them."""

import pytest

from penstock.cli.terminal.plain import clean, compact, pretty

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


def test_values_are_json_in_one_line_or_in_several() -> None:
    value = {"a": "é\ud83d"}
    assert compact(value) == '{"a": "é\ufffd"}'
    assert pretty(value) == '{\n  "a": "é\ufffd"\n}'
