"""The cost of checking a value against a JSON Schema."""

from typing import Any

import pytest

from penstock.core.json_values.schema import MAX_CHOICES, MAX_SCHEMAS, Schema, check_schema
from penstock.core.json_values.schema_cost import is_costly, parts, unfolded

NODE = {"$ref": "#/$defs/node"}


def tower(levels: int, keyword: str) -> dict[str, Any]:
    """Each level refers to the one below twice."""
    rules: dict[str, Any] = {"l0": {"type": "string"}}
    for level in range(levels):
        rules[f"l{level + 1}"] = {keyword: [{"$ref": f"#/$defs/l{level}"}] * 2}
    return {"properties": {"x": {"$ref": f"#/$defs/l{levels}"}}, "$defs": rules}


def syntax(kinds: int) -> dict[str, Any]:
    """A tree whose nodes are of one of these kinds, as languages have them."""
    each = [
        {"properties": {"kind": {"const": f"k{n}"}, "left": NODE}, "required": ["kind"]}
        for n in range(kinds)
    ]
    return {**NODE, "$defs": {"node": {"type": "object", "oneOf": each}}}


def chain(depth: int, kind: str) -> dict[str, Any]:
    value: dict[str, Any] = {"kind": kind}
    for _ in range(depth):
        value = {"kind": "k1", "left": value}
    return value


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_references_that_double_are_counted_and_no_schema(keyword: str) -> None:
    assert unfolded(tower(500, keyword)) > 2**500
    (fault,) = check_schema(tower(40, keyword))
    assert fault.message == f"has more than {MAX_SCHEMAS} schemas, with each $ref written out"
    with pytest.raises(ValueError, match="has more than 100000 schemas"):
        Schema(tower(40, keyword))


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$ref": "#"},
        syntax(200),
        {"properties": {f"p{n}": {"type": "string"} for n in range(5_000)}},
        {"$defs": {"a": {"$anchor": "here", "items": {"$ref": "#here"}}}, "$ref": "#here"},
        {"$ref": "#/items/nowhere/0", "const": {"$ref": "#"}},
        {"prefixItems": [{}], "items": {"$ref": "#/prefixItems/0"}},
    ],
)
def test_typical_schemas_are_small(schema: Any) -> None:
    assert unfolded(schema) < MAX_SCHEMAS


def test_the_cost_of_a_choice_is_estimated_before_the_check() -> None:
    schema = syntax(20)
    told = [is_costly(schema, chain(depth, "no"), MAX_CHOICES) for depth in (0, 1, 2, 200)]
    assert told == [False, False, True, True]
    assert not is_costly({"items": {"properties": {"a": {}}}}, [{"a": 1}] * 5_000, MAX_CHOICES)
    assert is_costly(tower(14, "allOf"), {"x": 1}, MAX_CHOICES) is False


@pytest.mark.parametrize("depth", [2, 5, 8])
def test_a_deep_mistake_is_reported_at_its_place_without_delay(depth: int) -> None:
    (problem,) = Schema(syntax(20)).problems(chain(depth, "no"))
    assert problem.path == "/left" * depth + "/kind"
    assert problem.message.startswith('must be one of: "k0", "k1", "k2"')


def test_a_far_too_deep_mistake_is_reported_where_the_search_ended() -> None:
    (problem,) = Schema(syntax(20)).problems(chain(100, "no"))
    assert problem.path == "/left" * 8
    assert problem.message == "does not fit the schema, whose choices are too many to say why"


def test_a_value_that_fits_is_never_counted() -> None:
    assert Schema(syntax(20)).problems(chain(150, "k7")) == []


@pytest.mark.parametrize(
    ("schema", "value", "keys"),
    [
        ({"properties": {"a": {}, "b": True}}, {"a": 1, "b": 2, "c": 3}, ["a"]),
        ({"items": {"type": "string"}}, ["a", 1], [0, 1]),
        ({"allOf": [{"properties": {"a": {}}}], "properties": {"a": {}}}, {"a": 1}, ["a", "a"]),
        ({"anyOf": [{"properties": {"a": {}}}, {"properties": {"a": {}}}]}, {"a": 1}, []),
        ({"$ref": "#"}, {"a": 1}, []),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"items": {}}}}, [1], [0]),
    ],
)
def test_the_parts_of_a_value_where_no_choice_is_left(schema: Any, value: Any, keys: Any) -> None:
    assert [key for key, _, _ in parts(schema, value)] == keys


def test_a_pattern_that_tries_everything_gives_up() -> None:
    (problem,) = Schema({"pattern": r"^(a*)*\1$"}).problems("a" * 40 + "b")
    assert "Max limit for backtracking count exceeded" in problem.message
    assert Schema({"pattern": r"^(?:(?!foo).)*$"}).problems("x" * 50_000) == []
