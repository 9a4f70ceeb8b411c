"""JSON from outside: what is refused, and what is read as everybody else reads it."""

import json
import re
from typing import Any

import pytest
from hypothesis import given

from penstock.core.json_values.canonical import compact
from penstock.core.json_values.json_text import parse_json, parse_json_at
from tests.kit.json_values import FEW, json_values

REFUSED = [
    ("1e400", "1e400 is too large for a number"),
    ('{"a": [-1e400]}', "-1e400 is too large for a number"),
    ("-" + "1" * 5000, f"-{'1' * 19}… is too large for a number"),
    ("1" * 400 + ".5", f"{'1' * 20}… is too large for a number"),
    ("1" * 250 + "e99", f"{'1' * 20}… is too large for a number"),
    ("1E+0400", "1E+0400 is too large for a number"),
    ("NaN", "NaN is not a number of JSON"),
    ("[Infinity]", "Infinity is not a number of JSON"),
    ("-Infinity", "-Infinity is not a number of JSON"),
    ("", "Expecting value: line 1 column 1 (char 0)"),
    ("{'a': 1}", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ("1 2", "Extra data: line 1 column 3 (char 2)"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_is_no_json_or_overflows_is_refused(text: str, said: str) -> None:
    for given_text in (text, text.encode(), bytearray(text.encode())):
        with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
            parse_json(given_text)


READ = [
    ("1e308", 1e308),
    ("1e-400", 0.0),
    ("1" + "0" * 400, 10**400),
    ("-0", 0),
    ('"' + "1" * 400 + '"', "1" * 400),
    ("[" + "1," * 400 + "1]", [1] * 401),
    (' {"a": 1, "a": 2} ', {"a": 2}),
    (r'"\ud83d\ude00"', "😀"),
    (r'["\ud83d", {"\uDE00": 1}]', ["�", {"�": 1}]),
    ('"\ud83d"', "�"),
    (r'"\\ud83d"', r"\ud83d"),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_what_is_json_is_read(text: str, value: Any) -> None:
    assert parse_json(text) == value


@given(json_values)
@FEW
def test_what_is_read_is_what_json_reads(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert repr(parse_json(text)) == repr(json.loads(text))


@given(json_values)
@FEW
def test_what_was_read_is_the_same_when_it_is_written_and_read_again(value: Any) -> None:
    read = parse_json(json.dumps(value))
    assert parse_json(compact(read)) == read


def test_bytes_that_are_no_utf_8_and_a_value_that_is_too_deep() -> None:
    with pytest.raises(UnicodeDecodeError):
        parse_json(b'"\xff"')
    with pytest.raises(RecursionError):
        parse_json("[" * 100_000)


def test_a_value_inside_a_text_ends_where_it_ends() -> None:
    assert parse_json_at('a {"b": 1} c', 2) == ({"b": 1}, 10)
    for text, said in (("a 1e400", "too large"), ("a NaN", "not a number"), ("a b", "Expecting")):
        with pytest.raises(ValueError, match=said):
            parse_json_at(text, 2)
