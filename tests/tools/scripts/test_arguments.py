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


@pytest.mark.parametrize("result", NO_TEXT)
def test_a_text_outside_its_length_is_refused(result: Any) -> None:
    with pytest.raises(TypeError, match="a must be a text of 1 to 10 characters"):
        text({"a": result}, "a", most=10)


def test_an_optional_text_may_be_absent_or_empty() -> None:
    assert optional_text({}, "a") is None
    assert optional_text({"a": None}, "a") is None
    assert optional_text({"a": ""}, "a") == ""
    with pytest.raises(TypeError):
        optional_text({"a": 1}, "a")


def test_a_lone_surrogate_is_replaced() -> None:
    assert text({"a": "x\ud800"}, "a") == "x\ufffd"


@pytest.mark.parametrize("result", NO_NUMBER)
def test_a_number_outside_its_range_is_refused(result: Any) -> None:
    with pytest.raises(TypeError, match="a must be a number from 0 to 10"):
        number({"a": result}, "a", 0, 10)


def test_a_number_within_its_range_is_returned() -> None:
    assert [number({"a": each}, "a", 0, 10) for each in (0, 0.5, 10)] == [0, 0.5, 10]
    assert optional_number({}, "a", 0, 10) is None
    with pytest.raises(TypeError):
        optional_number({"a": "1"}, "a", 0, 10)


@pytest.mark.parametrize("result", [None, 1, "x", True, []])
def test_a_value_that_is_not_an_object_is_refused(result: Any) -> None:
    with pytest.raises(TypeError, match="a must be an object"):
        mapping({"a": result}, "a")
    assert mapping({}, "a") == {}


@pytest.mark.parametrize("result", [None, 1, "x", True, {}])
def test_a_value_that_is_not_a_list_is_refused(result: Any) -> None:
    with pytest.raises(TypeError, match="a must be a list"):
        items({"a": result}, "a")
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


@pytest.mark.parametrize(("schema", "message"), NO_SCHEMA)
def test_an_invalid_or_expensive_schema_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ScriptSchema(schema)


def test_a_schema_may_refer_to_its_own_parts() -> None:
    line = {"type": "object", "properties": {"sku": {"type": "string", "pattern": r"^\d{3}$"}}}
    schema = ScriptSchema({"$defs": {"a/b": line}, "items": {"$ref": "#/$defs/a~1b"}})
    assert schema.problems([{"sku": "123"}]) == []
    assert [each.path for each in schema.problems([{"sku": "x"}])] == ["/0/sku"]


def test_a_large_schema_refuses_large_values() -> None:
    schema = ScriptSchema({"items": {"anyOf": [{"type": "null"}] * 1000}})
    assert len(schema.problems([1])) == 1
    with pytest.raises(TypeError, match="too large for so large a value"):
        schema.problems([1] * 100_000)


def test_a_schema_of_the_largest_size_is_accepted() -> None:
    """Each word counts with two more for its marks, each name with four."""
    room = 65_536 - (len("enum") + 4) - (1 + 2) - 2
    ScriptSchema({"enum": ["x" * room]})
    with pytest.raises(TypeError, match="at most 65536 characters"):
        ScriptSchema({"enum": ["x" * (room + 1)]})
