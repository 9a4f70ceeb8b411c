"""Which schemas are refused, how references are read, and how schemas are merged."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.models.structured.definitions import (
    Definitions,
    Part,
    merged,
    name_of,
    plain,
    read,
    ref_to,
    same,
)


def cyclic() -> Part:
    schema: Part = {"type": "object"}
    schema["properties"] = {"a": schema}
    return schema


def shared() -> Part:
    schema: Part = {"type": "string"}
    for _ in range(40):
        schema = {"anyOf": [schema, schema]}
    return schema


def deep() -> Part:
    schema: Part = {"type": "string"}
    for _ in range(5000):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: [1], "must be an object, found list"),
        (lambda: None, "must be an object, found NoneType"),
        (lambda: {"type": "nothing"}, "is not a JSON Schema"),
        (lambda: {"properties": 3}, "is not a JSON Schema"),
        (lambda: {"$ref": "#/$defs/none"}, "is not a JSON Schema"),
        (
            lambda: {"properties": {"a": {"$ref": "https://x.test/y"}}},
            "refers to another document at /properties/a/$ref: 'https://x.test/y'",
        ),
        (
            lambda: {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
            "defines 'A' only by itself",
        ),
        (
            lambda: {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}},
            "defines 'A' only by itself",
        ),
        (cyclic, "has more than 100 levels"),
        (deep, "has more than 100 levels"),
        (shared, "has more than 50,000 values"),
        (lambda: {"enum": list(range(50_001))}, "has more than 50,000 values"),
    ],
)
def test_a_broken_schema_is_an_error_of_the_configuration(
    make: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(make())
    assert message in str(caught.value)


def test_definitions_of_both_names_are_kept_apart() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/definitions/A"}},
        "$defs": {"A": {"type": "string"}},
        "definitions": {"A": {"type": "integer"}},
    }
    found = read(schema)
    assert found.parts == {"A": {"type": "string"}, "A_2": {"type": "integer"}}
    assert found.root["properties"] == {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A_2"}}


def test_a_property_or_a_value_that_looks_like_a_reference_is_none() -> None:
    schema = {
        "properties": {"$ref": {"type": "string"}, "b": {"const": {"$ref": "#/nowhere"}}},
        "default": {"$ref": "https://x.test"},
    }
    assert read(schema).root == schema
    assert read(schema).inner == ""


def test_a_chain_of_ten_thousand_definitions_is_read_quickly() -> None:
    parts: Part = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(10_000)}
    found = read({"type": "object", "$defs": {**parts, "d10000": {"type": "string"}}})
    assert len(found.parts) == 10_001


@pytest.mark.parametrize("name", ["A", "a/b", "~1", "Page[Item]"])
def test_a_reference_names_its_definition(name: str) -> None:
    assert name_of(ref_to(name)) == name


DEFINITIONS = Definitions(
    {},
    {
        "Name": {"type": "string", "minLength": 2},
        "Tree": {"type": "object", "properties": {"sub": {"$ref": "#/$defs/Tree"}}},
        "Other": {"type": "object", "properties": {"sub": {"$ref": "#/$defs/Other"}}},
    },
)
A = {"properties": {"a": {"type": "string"}}}
B = {"properties": {"b": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schemas", "whole"),
    [
        ([{"type": "number"}, {"type": ["integer", "string"]}], {"type": "integer"}),
        ([{"type": "string"}, {"type": "null"}], None),
        (
            [{"minimum": 1, "maximum": 9}, {"minimum": 3, "maximum": 5}],
            {"minimum": 3, "maximum": 5},
        ),
        ([{"enum": [1, True, "a"]}, {"enum": [True, "a"]}], {"enum": [True, "a"]}),
        ([{"required": ["a"]}, {"required": ["b", "a"]}], {"required": ["a", "b"]}),
        ([A, B], {"properties": {**A["properties"], **B["properties"]}}),
        ([{**A, "additionalProperties": False}, B], None),
        ([{**A, "additionalProperties": False}, A], {**A, "additionalProperties": False}),
        ([{**A, "unevaluatedProperties": False}, B], None),
        ([{"pattern": "a"}, {"pattern": "b"}], None),
        ([{"if": {}, "then": False}, {"then": {"type": "null"}}], None),
        ([{"prefixItems": [{}]}, {"items": False}], None),
        ([{"items": {"minimum": 1}}, {"items": {"minimum": 2}}], {"items": {"minimum": 2}}),
        ([{"anyOf": [{}]}, {"anyOf": [{"type": "null"}]}], None),
        ([{"description": "one"}, {"description": "two"}], {"description": "one"}),
        ([{"title": "T", "type": "null"}, True], {"type": "null"}),
        ([{"type": "null"}, False], False),
        (
            [{"$ref": "#/$defs/Name"}, {"maxLength": 5}],
            {"type": "string", "minLength": 2, "maxLength": 5},
        ),
        ([{"allOf": [{"allOf": [{"minimum": 1}]}]}, {"maximum": 2}], {"minimum": 1, "maximum": 2}),
        ([{"$ref": "#/$defs/Tree"}, {"$ref": "#/$defs/Other"}], None),
        (
            [{"$ref": "#/$defs/Tree"}, {"required": ["sub"]}],
            {
                "type": "object",
                "properties": {"sub": {"$ref": "#/$defs/Tree"}},
                "required": ["sub"],
            },
        ),
    ],
)
def test_schemas_are_merged(schemas: list[Any], whole: Part | None) -> None:
    assert merged(schemas, DEFINITIONS) == whole


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"type": "null", "$comment": "x"}, {"type": "null"}),
        (
            {"allOf": [{"$ref": "#/$defs/Name"}], "description": "N"},
            {"$ref": "#/$defs/Name", "description": "N"},
        ),
        ({"$ref": "#/$defs/Name", "default": "x"}, {"$ref": "#/$defs/Name", "default": "x"}),
        (
            {"$ref": "#/$defs/Name", "minLength": 4},
            {"type": "string", "minLength": 4},
        ),
        (
            {"allOf": [A, B], "unevaluatedProperties": False},
            {"properties": {**A["properties"], **B["properties"]}, "additionalProperties": False},
        ),
    ],
)
def test_a_plain_schema_has_no_all_of(schema: Part, found: Part) -> None:
    assert plain(schema, DEFINITIONS) == found


def test_one_is_not_true() -> None:
    assert same(1, 1.0)
    assert not same([1], [True])
