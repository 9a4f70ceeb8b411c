"""Schemas of scripts: checked by the host, which no schema may hold up."""

from typing import Any

import pytest

from penstock.tools.scripts.given_schema import GivenSchema

DOUBLED = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(30)}
NO_SCHEMA: list[tuple[Any, str]] = [
    (None, "must be an object"),
    (1, "must be an object"),
    ("x", "must be an object"),
    ([], "must be an object"),
    ({"type": "nothing"}, "not a JSON Schema"),
    ({"$ref": "#/$defs/none"}, "not a JSON Schema"),
    ({"$ref": "https://example.com/x"}, "refers by #/… alone"),
    ({"$anchor": "a", "items": {"$dynamicRef": "#a"}}, "refers by #/… alone"),
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
        GivenSchema(schema)


def test_a_schema_may_refer_to_its_own_parts() -> None:
    line = {"type": "object", "properties": {"sku": {"type": "string", "pattern": r"^\d{3}$"}}}
    schema = GivenSchema({"$defs": {"a/b": line}, "items": {"$ref": "#/$defs/a~1b"}})
    assert schema.problems([{"sku": "123"}]) == []
    assert [each.path for each in schema.problems([{"sku": "x"}])] == ["/0/sku"]


def test_a_large_schema_is_for_small_values() -> None:
    schema = GivenSchema({"items": {"anyOf": [{"type": "null"}] * 1000}})
    assert len(schema.problems([1])) == 1
    with pytest.raises(TypeError, match="too large for so large a value"):
        schema.problems([1] * 100_000)


def test_a_schema_has_as_many_characters_as_are_taken() -> None:
    """Each word counts with two more for its marks, each name with four."""
    room = 65_536 - (len("enum") + 4) - (1 + 2) - 2
    GivenSchema({"enum": ["x" * room]})
    with pytest.raises(TypeError, match="at most 65536 characters"):
        GivenSchema({"enum": ["x" * (room + 1)]})
