"""Equal JSON is spelled alike, whatever it looks like at first."""

from typing import Any

import pytest

from penstock.core.canonical import canonical, compact, fingerprint


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ({"b": [1, {"d": None, "c": True}], "a": "x y"}, '{"a":"x y","b":[1,{"c":true,"d":null}]}'),
        ({"n": 1.0}, '{"n":1}'),
        ({"n": 1e3, "m": -0.0}, '{"m":0,"n":1000}'),
        ({"n": 1.5}, '{"n":1.5}'),
        ({"n": float("nan")}, '{"n":null}'),
        ({"é": "\u00e9\n"}, '{"é":"é\\n"}'),
        ({"s": "\ud83d"}, '{"s":"�"}'),
        ({"s": "\ud83d\ude00"}, '{"s":"😀"}'),
        ((1, 2), "[1,2]"),
        ("text", '"text"'),
        (None, "null"),
        ({}, "{}"),
    ],
)
def test_a_value_has_one_spelling(value: Any, spelling: str) -> None:
    assert canonical(value) == spelling


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": 2.0}, '{"b":1,"a":2.0}'),
        ({"n": [float("inf"), float("nan"), -1]}, '{"n":[null,null,-1]}'),
        ("\ud800é", '"�é"'),
        ({"1": {2: True}}, '{"1":{"2":true}}'),
    ],
)
def test_logs_and_models_get_a_value_in_its_own_order(value: Any, text: str) -> None:
    assert compact(value) == text


@pytest.mark.parametrize("value", [object(), {"a": {1, 2}}, {"a": b"x"}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    for spell in (canonical, compact):
        with pytest.raises(TypeError):
            spell(value)


def test_a_value_nested_without_end_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(RecursionError):
        compact(value)


def test_a_fingerprint_depends_on_the_key_the_tool_and_the_input() -> None:
    prints = {
        fingerprint(*each)
        for each in [
            (b"k", "add", "{}"),
            (b"k", "add", "[]"),
            (b"k", "sub", "{}"),
            (b"other", "add", "{}"),
        ]
    }
    assert len(prints) == 4
    assert fingerprint(b"k", "add", "{}") in prints
    assert {len(each) for each in prints} == {16}
