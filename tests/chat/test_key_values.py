"""Inputs as people type them."""

from typing import Any

import pytest

from penstock.chat.key_values import needs, read_input, read_pairs, usage

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["customer", "amount"],
    "properties": {
        "customer": {"type": "string"},
        "amount": {"type": "number"},
        "draft": {"type": "boolean"},
        "count": {"$ref": "#/$defs/count"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "rows": {"type": "array", "items": {"type": "object"}},
        "more": {"type": "object"},
        "note": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "kind": {"enum": ["a", "b"]},
        "loop": {"$ref": "#/$defs/loop"},
    },
    "$defs": {"count": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}},
}

READ: list[tuple[str, dict[str, Any]]] = [
    ('customer="two words"', {"customer": "two words"}),
    (r"customer=a\ b\"c\\", {"customer": 'a b"c\\'}),
    ('customer=""', {"customer": ""}),
    ("customer=5", {"customer": "5"}),
    ("customer={x", {"customer": "{x"}),
    ("customer=a=b", {"customer": "a=b"}),
    ("amount=5", {"amount": 5}),
    ("amount=-1.5e3", {"amount": -1500.0}),
    ("draft=true", {"draft": True}),
    ("count=12", {"count": 12}),
    ("tags=a tags=b", {"tags": ["a", "b"]}),
    ('tags=["a b", "c"] count=1', {"tags": ["a b", "c"], "count": 1}),
    ("numbers=1 numbers=2", {"numbers": [1, 2]}),
    ('rows=[{"a": 1}]', {"rows": [{"a": 1}]}),
    ('more={"a": "b c"}', {"more": {"a": "b c"}}),
    ("note=null", {"note": None}),
    ("note=x", {"note": "x"}),
    ("either=5", {"either": 5}),
    ("either=x", {"either": "x"}),
    ("kind=a", {"kind": "a"}),
    ("other=5", {"other": 5}),
    ("other=[1]", {"other": [1]}),
    ("other=words", {"other": "words"}),
    ("loop=5", {"loop": 5}),
    ('{"customer": "x", "n": [1]}', {"customer": "x", "n": [1]}),
    ("", {}),
]


@pytest.mark.parametrize(("text", "input"), READ)
def test_a_value_is_parsed_by_its_type_in_the_schema(text: str, input: dict[str, Any]) -> None:
    free = {**SCHEMA, "required": []}
    assert read_input(free, text) == (input, [])


WRONG = [
    ("amount=x", ['/amount: "x" is not a number', "/customer: is required"]),
    ("customer=a amount=NaN", ['/amount: "NaN" is not a number']),
    ("customer=a amount=1 count=1.5", ['/count: "1.5" is not an integer']),
    ("customer=a amount=1 draft=yes", ['/draft: "yes" is not true or false']),
    ("customer=a amount=1 more=[]", ['/more: "[]" is not an object']),
    ("customer=a amount=1 rows=x", ['/rows: "x" is not an array']),
    ("customer=a amount=1 amount=2", ["/amount: is given twice"]),
    ("customer=a amount=1 numbers=x", ['/numbers: "x" is not an integer']),
    ("customer=a amount=1 word", ["/: 'word' is not key=value"]),
    ("customer=a amount=1 =x", ["/: '=x' is not key=value"]),
    ('customer="a amount=1', ["/: a quote is not closed", "/customer: is required",
                              "/amount: is required"]),
    ("customer=a amount=" + "9" * 5000, None),
    ("[1]", ["/: '[1]' is not key=value", "/customer: is required", "/amount: is required"]),
    ("{", None),
    ('{"amount": NaN}', ["/: is not JSON: NaN is not a number of JSON"]),
    ("{}", ["/customer: is required", "/amount: is required"]),
    ("{" + '"a":[' * 100_000, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problems"), WRONG)
def test_a_value_that_cannot_be_parsed_is_reported_with_its_path(
    text: str, problems: list[str] | None
) -> None:
    _, value = read_input(SCHEMA, text)
    assert value
    assert problems is None or [str(each) for each in value] == problems


def test_single_pairs_can_lack_required_members() -> None:
    value, problems = read_pairs(SCHEMA, [("customer", "Ann"), ("customer", "Bob")])
    assert value == {"customer": "Ann"}
    assert [str(each) for each in problems] == ["/customer: is given twice"]
    assert read_pairs(SCHEMA, []) == ({}, [])


def test_the_usage_of_a_tool_shows_its_inputs() -> None:
    """Spec: "usage: /call make_invoice customer=<string> amount=<number> [draft=<boolean>]"."""
    some = ("customer", "amount", "draft")
    invoice = {**SCHEMA, "properties": {each: SCHEMA["properties"][each] for each in some}}
    expected = "/call make_invoice customer=<string> amount=<number> [draft=<boolean>]"
    assert usage("make_invoice", invoice) == expected
    rest = {"properties": {each: SCHEMA["properties"][each] for each in ("note", "kind", "loop")}}
    assert usage("x", rest) == "/call x [note=<string|null>] [kind=<a|b>] [loop=<json>]"
    assert (needs(SCHEMA), needs({})) == (["customer", "amount"], [])
