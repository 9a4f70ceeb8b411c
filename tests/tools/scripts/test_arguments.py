"""Arguments of host calls are checked, and schemas of scripts are bounded."""

from typing import Any

import pytest

from penstock.tools.scripts.arguments import (
    ScriptSchema,
    items,
    mapping,
    number,
    optional_number,
    optional_text,
    text,
)

NO_TEXT: list[Any] = [None, 1, "", True, [], {}, "x" * 11]
NO_NUMBER: list[Any] = [None, "1", True, [], -1, 11, 1e300, float("inf"), float("nan"), 10**400]


@pytest.mark.parametrize("found", NO_TEXT)
def test_a_text_is_a_text_of_the_right_length(found: Any) -> None:
    with pytest.raises(TypeError, match="a must be a text of 1 to 10 characters"):
        text({"a": found}, "a", most=10)


def test_a_text_that_may_be_left_out_may_be_empty() -> None:
    assert optional_text({}, "a") is None
    assert optional_text({"a": None}, "a") is None
    assert optional_text({"a": ""}, "a") == ""
    with pytest.raises(TypeError):
        optional_text({"a": 1}, "a")


def test_half_a_character_is_replaced() -> None:
    assert text({"a": "x\ud800"}, "a") == "x\ufffd"


@pytest.mark.parametrize("found", NO_NUMBER)
def test_a_number_is_a_number_in_its_range(found: Any) -> None:
    with pytest.raises(TypeError, match="a must be a number from 0 to 10"):
        number({"a": found}, "a", 0, 10)


def test_numbers_that_do() -> None:
    assert [number({"a": each}, "a", 0, 10) for each in (0, 0.5, 10)] == [0, 0.5, 10]
    assert optional_number({}, "a", 0, 10) is None
    with pytest.raises(TypeError):
        optional_number({"a": "1"}, "a", 0, 10)


@pytest.mark.parametrize("found", [None, 1, "x", True, []])
def test_an_object_is_an_object(found: Any) -> None:
    with pytest.raises(TypeError, match="a must be an object"):
        mapping({"a": found}, "a")
    assert mapping({}, "a") == {}


@pytest.mark.parametrize("found", [None, 1, "x", True, {}])
def test_a_list_is_a_list(found: Any) -> None:
    with pytest.raises(TypeError, match="a must be a list"):
        items({"a": found}, "a")
    assert items({}, "a") == []


DOUBLED = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(30)}
NO_SCHEMA: list[tuple[Any, str]] = [
    (None, "must be an object"),
    (1, "must be an object"),
    ("x", "must be an object"),
    ([], "must be an object"),
    ({"type": "nothing"}, "not a JSON Schema"),
    ({"$ref": "#/$defs/none"}, "not a JSON Schema"),
    ({"$ref": "https://example.com/x"}, "may refer to #/… only"),
    ({"$anchor": "a", "items": {"$dynamicRef": "#a"}}, "may refer to #/… only"),
    ({"items": {"$ref": "#"}}, "does not refer to itself"),
    ({"$defs": DOUBLED | {"a30": False}, "$ref": "#/$defs/a0"}, "at most 65536 characters"),
    ({"enum": ["x" * 70_000]}, "at most 65536 characters"),
    ({"enum": [1] * 40_000}, "at most 65536 characters"),
    ({"pattern": r"^(?:(a+)\1*)+$"}, "not a JSON Schema"),
    ({"pattern": "(a{1000}){1000}"}, "not a JSON Schema"),
]


@pytest.mark.parametrize(("schema", "said"), NO_SCHEMA)
def test_what_is_no_schema_or_could_take_long_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        ScriptSchema(schema)


def test_a_schema_may_refer_to_its_own_parts() -> None:
    line = {"type": "object", "properties": {"sku": {"type": "string", "pattern": r"^\d{3}$"}}}
    schema = ScriptSchema({"$defs": {"a/b": line}, "items": {"$ref": "#/$defs/a~1b"}})
    assert schema.problems([{"sku": "123"}]) == []
    assert [each.path for each in schema.problems([{"sku": "x"}])] == ["/0/sku"]


def test_a_large_schema_is_for_small_values() -> None:
    schema = ScriptSchema({"items": {"anyOf": [{"type": "null"}] * 1000}})
    assert len(schema.problems([1])) == 1
    with pytest.raises(TypeError, match="too large for so large a value"):
        schema.problems([1] * 100_000)


def test_a_schema_has_as_many_characters_as_are_taken() -> None:
    """Each word counts with two more for its marks, each name with four."""
    room = 65_536 - (len("enum") + 4) - (1 + 2) - 2
    ScriptSchema({"enum": ["x" * room]})
    with pytest.raises(TypeError, match="at most 65536 characters"):
        ScriptSchema({"enum": ["x" * (room + 1)]})
