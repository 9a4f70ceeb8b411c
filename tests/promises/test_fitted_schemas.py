"""Random schemas: what a fitted schema accepts is valid by the original."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from penstock.core.json_values.schema import Schema
from penstock.models.structured.fit import fit
from penstock.models.structured.fitted import ANTHROPIC, COMPATIBLE, OPENAI, Dialect, ToolMode
from tests.kit.schema_judges import judge_form

Json = dict[str, Any]
STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}

ENFORCED = {
    "openai": {"pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"},
    "openai-compatible": {"pattern", "minimum", "maximum", "minItems", "maxItems"},
    "anthropic": set[str](),
}
RULES = ENFORCED["openai"] | {"uniqueItems", "multipleOf"}


def parts(children: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    names = st.sampled_from("abc")
    objects = st.builds(
        lambda properties, count: {
            "type": "object",
            "properties": properties,
            "required": list(properties)[:count],
        },
        st.dictionaries(names, children, min_size=1, max_size=3),
        st.integers(0, 3),
    )
    arrays = st.builds(
        lambda items, rules: {"type": "array", "items": items, **rules},
        children,
        st.fixed_dictionaries({}, optional={"minItems": st.integers(0, 2)}),
    )
    choices = st.builds(
        lambda keyword, options: {keyword: options},
        st.sampled_from(["anyOf", "oneOf", "allOf"]),
        st.lists(children, min_size=1, max_size=3),
    )
    return objects | arrays | choices


LEAVES = st.sampled_from(
    [
        STRING,
        INTEGER,
        NULL,
        {"type": "boolean"},
        {"type": ["string", "null"], "minLength": 1},
        {"type": "integer", "minimum": 0, "maximum": 2, "default": 1},
        {"type": "string", "pattern": "^[ab]*$"},
        {"enum": ["a", 1, None, True]},
        {"const": "b"},
        {"$ref": "#/$defs/Leaf"},
        {"$ref": "#/$defs/Pair", "description": "Two."},
    ]
)
SCHEMAS = st.recursive(LEAVES, parts, max_leaves=8)
DEFINED = {
    "Leaf": {"type": ["integer", "null"]},
    "Pair": {"type": "object", "properties": {"a": INTEGER, "b": {"$ref": "#/$defs/Leaf"}}},
}


def weakened(schema: Any, dialect: Dialect) -> Any:
    """Return the schema without the rules that only its description states."""
    if isinstance(schema, list):
        return [weakened(each, dialect) for each in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = RULES - ENFORCED[dialect.name]
    return {
        {"oneOf": "anyOf"}.get(key, key): weakened(value, dialect)
        for key, value in schema.items()
        if key not in dropped
    }


@st.composite
def written(draw: DrawFn, fitted: Json, schema: Json | None = None, level: int = 0) -> Any:
    """Draw what a model may write by a fitted schema."""
    part = fitted if schema is None else schema
    if "$ref" in part:
        part = fitted["$defs"][part["$ref"].rpartition("/")[2]]
    if "anyOf" in part:
        branch = draw(st.sampled_from(part["anyOf"]))
        return draw(written(fitted, branch, level))
    if "enum" in part:
        return draw(st.sampled_from(part["enum"]))
    kind = part["type"]
    if kind == "object":
        required = part.get("required", [])
        return {
            name: draw(written(fitted, inner, level + 1))
            for name, inner in part["properties"].items()
            if name in required or draw(st.booleans())
        }
    if kind == "array":
        low = part.get("minItems", 0)
        size = draw(st.integers(low, low + 1))
        return [draw(written(fitted, part["items"], level + 1)) for _ in range(size)]
    simple: dict[str, st.SearchStrategy[Any]] = {
        "string": st.sampled_from(["", "a", "ab", "b", "zz"]),
        "integer": st.integers(-1, 3),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return draw(simple[kind])


@pytest.mark.slow("draws hundreds of schemas and values")
@settings(max_examples=200, deadline=None)
@given(schema=SCHEMAS, dialect=st.sampled_from([OPENAI, COMPATIBLE, ANTHROPIC]), data=st.data())
def test_what_a_fitted_schema_accepts_is_valid_by_the_original(
    schema: Json, dialect: Dialect, data: st.DataObject
) -> None:
    original = {**schema, "$defs": DEFINED}
    fitted = fit(original, dialect)
    if isinstance(fitted, ToolMode):
        assert fitted.reason
        return
    judge_form(fitted, dialect)
    value = data.draw(written(fitted.schema))
    if Schema(fitted.schema).problems(value) == []:
        found = fitted.restored(value)
        assert Schema(weakened(original, dialect)).problems(found) == []
