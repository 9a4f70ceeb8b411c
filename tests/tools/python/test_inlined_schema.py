"""References in schemas are replaced by their definitions."""

from typing import Any

import pytest

from penstock.tools.python.inlined_schema import inlined

NAME = {"type": "string", "title": "Name"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}, {"type": "string"}),
        (
            {"$ref": "#/$defs/A", "description": "Own.", "$defs": {"A": {"description": "Its."}}},
            {"description": "Own."},
        ),
        (
            {"properties": {"title": NAME, "$ref": {"type": "null"}}},
            {"properties": {"title": {"type": "string"}, "$ref": {"type": "null"}}},
        ),
        (
            {"anyOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}}}
            | {"$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"const": 1}}},
            {"anyOf": [{"items": {"const": 1}}]},
        ),
        ({"enum": [{"title": "kept"}], "default": {"title": "kept"}}, None),
        ({"oneOf": [True], "items": False, "discriminator": {}}, {"oneOf": [True], "items": False}),
    ],
)
def test_references_are_replaced_by_their_definitions(
    schema: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    assert inlined(schema, formats=True) == (schema if expected is None else expected)


def test_formats_are_left_out_where_only_the_shape_counts() -> None:
    assert inlined({"type": "string", "format": "date"}, formats=False) == {"type": "string"}
