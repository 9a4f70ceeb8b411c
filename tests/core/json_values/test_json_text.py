"""JSON from outside: what is refused, and what is read as everybody else reads it."""

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.core.json_values.json_text import (
    canonical,
    compact,
    is_deeper,
    is_larger,
    parse_json,
    parse_json_at,
    without_surrogates,
)
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


@pytest.mark.parametrize(("text", "expected"), REFUSED)
def test_invalid_json_and_overflowing_numbers_are_refused(text: str, expected: str) -> None:
    for given_text in (text, text.encode(), bytearray(text.encode())):
        with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
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
def test_valid_json_is_read(text: str, value: Any) -> None:
    assert parse_json(text) == value


@given(json_values)
@FEW
def test_values_are_read_as_by_the_json_module(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert repr(parse_json(text)) == repr(json.loads(text))


@given(json_values)
@FEW
def test_a_value_survives_writing_and_reading(value: Any) -> None:
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


SPELLED = [
    ('{"b": 1, "a": {"d": 2, "c": 3}}', '{"a":{"c":3,"d":2},"b":1}'),
    ('{"a": 1, "a": 2}', '{"a":2}'),
    ("[1, 1.0, 1e0, -0, -0.0]", "[1,1,1,0,0]"),
    ("[0.1, 1.50, 1e-7, 1.7976931348623157e308]", None),
    ('" A\\u00e9\\t\\u007f\\u2028\\/\\"\\\\"', '" Aé\\t\x7f\u2028/\\"\\\\"'),
    ('"\\ud800 \\udc00\\ud83d"', '"\ufffd \ufffd\ufffd"'),
    ('{"\\ud800": 1}', '{"\ufffd":1}'),
    ('"\\ud83d\\ude00"', '"\U0001f600"'),
    ('{"\\uffff": 1, "\\ud83d\\ude00": 2, "Z": 3, "a": 4}', '{"Z":3,"a":4,"\uffff":1,"😀":2}'),
    ("[true, false, null, [], {}]", "[true,false,null,[],{}]"),
]


@pytest.mark.parametrize(("text", "spelled"), SPELLED)
def test_the_rules_of_spelling(text: str, spelled: str | None) -> None:
    """Chat API 4.1: keys by code point, numbers by value, strings unchanged but for surrogates.

    "a number without fraction is written as integer"; "other numbers as the shortest decimal that
    reads back as the same double"; "duplicate keys in the source text: the last wins".
    """
    given = json.loads(text)
    expected = spelled or "[0.1,1.5,1e-07," + str(int(1.7976931348623157e308)) + "]"
    assert canonical(given) == expected
    assert canonical(json.loads(canonical(given))) == canonical(given)


SAME = [
    ('{"a":1,"b":2}', '{"b":2.0,"a":1}'),
    ('{"x":-0.0}', '{"x":0}'),
    ('{"s":"\\u00e9"}', '{"s":"é"}'),
    ('{"n":100000000000000000000}', '{"n":1e20}'),
]
DIFFERENT = [
    ('{"q":"React"}', '{"q":"react"}'),
    ('{"q":"a"}', '{"q":"a "}'),
    ('{"s":"\\u00e9"}', '{"s":"e\\u0301"}'),
    ('{"q":"a"}', '{"q":"a","limit":null}'),
    ("[1,2]", "[2,1]"),
    ('{"a":1}', '{"a":true}'),
    ('{"a":1}', '{"a":"1"}'),
    ('{"n":9007199254740992}', '{"n":9007199254740993}'),
    ('{"a":[]}', '{"a":{}}'),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same(one: str, other: str) -> None:
    """Chat API 4.1, the table of what is the same."""
    assert canonical(json.loads(one)) == canonical(json.loads(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different(one: str, other: str) -> None:
    """Chat API 4.1, the table of what is different: no case folding, no trimming, no defaults."""
    assert canonical(json.loads(one)) != canonical(json.loads(other))


HOSTILE: list[tuple[Any, str]] = [
    (float("nan"), "null"),
    ({"a": float("inf"), "b": [-float("inf")]}, '{"a":null,"b":[null]}'),
    (10**4000, str(10**4000)),
    ({"a": -(10**30)}, '{"a":-1' + "0" * 30 + "}"),
    ({1: {2: 3.0}}, '{"1":{"2":3}}'),
    ((1, (2.0,)), "[1,[2]]"),
    ("\ud800", '"\ufffd"'),
    ({"\x00": "\x00"}, '{"\\u0000":"\\u0000"}'),
]


@pytest.mark.parametrize(("value", "spelled"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_values_are_spelled_too(value: Any, spelled: str) -> None:
    assert canonical(value) == spelled


def nested(depth: int) -> Any:
    value: Any = 1.0
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_is_followed_as_far_as_inputs_may_go_and_never_crashes() -> None:
    assert canonical(nested(200)) == "[" * 200 + "1" + "]" * 200
    for spell in (canonical, compact):
        with pytest.raises(RecursionError):
            spell(nested(100_000))


FLAT = st.dictionaries(
    st.text(max_size=9), st.text(max_size=9) | st.integers() | st.booleans() | st.none(), max_size=4
)


@FEW
@given(FLAT | st.text() | st.integers())
@example("".join(chr(each) for each in range(0x10000) if not 0xD800 <= each < 0xE000))
@example({"\uffff": 1, "\U0001f600": 2, "": 3, "a" * 999: 4})
def test_flat_values_are_spelled_as_by_the_json_module(value: Any) -> None:
    rules: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":")}
    assert compact(value) == json.dumps(value, **rules)
    assert canonical(value) == json.dumps(value, sort_keys=True, **rules)


def test_keys_that_are_no_text_are_spelled_as_by_the_json_module() -> None:
    assert canonical({None: 1}) == compact({None: 1}) == '{"null":1}'
    assert canonical({2: 1}) == compact({2: 1}) == '{"2":1}'
    assert canonical({True: 1}) == compact({True: 1}) == '{"true":1}'


@FEW
@given(json_values)
def test_a_spelling_is_json_and_spells_itself(value: Any) -> None:
    spelled = canonical(value)
    assert canonical(json.loads(spelled)) == spelled


@FEW
@given(st.dictionaries(st.text(max_size=9), json_values, max_size=4), st.randoms())
def test_the_order_of_keys_never_counts(value: dict[str, Any], chance: Any) -> None:
    keys = list(value)
    chance.shuffle(keys)
    assert canonical({key: value[key] for key in keys}) == canonical(value)


COMPACT: list[tuple[Any, str]] = [
    ({"b": 1, "a": [1.0, "é"]}, '{"b":1,"a":[1.0,"é"]}'),
    ([float("nan"), {"a": float("inf")}], '[null,{"a":null}]'),
    ("a\ud800", '"a\ufffd"'),
    (None, "null"),
]


@pytest.mark.parametrize(("value", "text"), COMPACT, ids=range(len(COMPACT)))
def test_compact_json_keeps_its_order(value: Any, text: str) -> None:
    """Chat API 6.1: "JSON, no spaces, keys in the order the tool gave, non-ASCII unescaped"."""
    assert compact(value) == text


SURROGATES = [
    ("plain é 😀", "plain é 😀"),
    ("\ud800", "\ufffd"),
    ("\ude00\ud83d", "\ufffd\ufffd"),
    ("x\ud83d\ude00y", "x😀y"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "clean"), SURROGATES, ids=range(len(SURROGATES)))
def test_lone_surrogates_become_the_replacement_character(text: str, clean: str) -> None:
    assert without_surrogates(text) == clean


@given(json_values)
@example(value=-(10**31))
@example(value=[2**4000] * 3)
def test_the_size_of_a_value_is_its_bytes_as_json(value: Any) -> None:
    size = len(compact(value).encode())
    assert (is_larger(value, size), is_larger(value, size - 1)) == (False, True)


@pytest.mark.parametrize(
    ("value", "depth", "expected"),
    [
        (1, 0, False),
        ([], 0, True),
        ([], 1, False),
        ([1, "[[["], 1, False),
        ([[], []], 1, True),
        ({"a": [1]}, 1, True),
        ({"a": [1]}, 2, False),
        (((1,),), 1, True),
        (nested(200), 200, False),
        (nested(201), 200, True),
        (nested(100_000), 200, True),
    ],
    ids=range(11),
)
def test_deeper_than(value: Any, depth: int, expected: bool) -> None:
    assert is_deeper(value, depth) is expected
