"""Which schemas providers can enforce, and that a fitted schema accepts nothing else."""

from typing import Any

import pytest

from penstock.core.json_values.schema import Schema
from penstock.models.structured.fit import fit
from penstock.models.structured.fitted import (
    ANTHROPIC,
    COMPATIBLE,
    OPENAI,
    Dialect,
    Fitted,
    ToolMode,
)
from tests.kit.schema_judges import judge_form

pytestmark = pytest.mark.conformance
Json = dict[str, Any]
STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
CAT = {"type": "object", "properties": {"kind": {"const": "cat"}, "n": INTEGER}}
DOG = {"type": "object", "properties": {"kind": {"const": "dog"}, "s": STRING}}
PETS = {
    "Cat": {**CAT, "required": ["kind", "n"]},
    "Dog": {**DOG, "required": ["kind", "s"]},
}
NODE = {
    "type": "object",
    "properties": {"v": INTEGER, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, NULL]}},
    "required": ["v", "next"],
}
CLOSED = {"additionalProperties": False}


def strings(count: int) -> Json:
    return {f"p{number}": STRING for number in range(count)}


def described(text: str, **schema: Any) -> Json:
    return {**schema, "description": text}


def either(*branches: Json, **beside: Any) -> Json:
    return {"anyOf": list(branches), **beside}


SAME = object()
TOOL = object()
ROWS: list[tuple[str, Json, Any, Any]] = [
    ("1", STRING, SAME, SAME),
    (
        "3",
        {"type": ["string", "null"], "maxLength": 9},
        either({"type": "string", "maxLength": 9}, NULL),
        either(described("{maxLength: 9}", type="string"), NULL),
    ),
    ("5", {"type": "integer", "minimum": 1, "maximum": 10}, SAME, "{minimum: 1, maximum: 10}"),
    ("6", {"type": "string", "minLength": 2, "maxLength": 9}, SAME, "{minLength: 2, maxLength: 9}"),
    ("7", {"type": "string", "pattern": "^[a-z]+$"}, SAME, '{pattern: "^[a-z]+$"}'),
    (
        "8",
        {"type": "string", "pattern": "^(?=.*x).+$"},
        '{pattern: "^(?=.*x).+$"}',
        '{pattern: "^(?=.*x).+$"}',
    ),
    ("9", {"type": "string", "format": "uri"}, '{format: "uri"}', SAME),
    ("10", {"const": "a"}, {"type": "string", "enum": ["a"]}, {"enum": ["a"]}),
    ("16", {"type": "object"}, TOOL, TOOL),
    ("15", {"type": "object", "additionalProperties": INTEGER}, TOOL, TOOL),
    (
        "17",
        {"type": "array", "items": STRING, "minItems": 2, "uniqueItems": True},
        described("{uniqueItems: true}", type="array", items=STRING, minItems=2),
        described("{minItems: 2, uniqueItems: true}", type="array", items=STRING),
    ),
    ("18", {"type": "array"}, TOOL, TOOL),
    ("20", {}, TOOL, TOOL),
    (
        "19",
        {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
        described(
            '{order: ["integer", "string"]}',
            type="array",
            items=either(INTEGER, STRING),
            minItems=2,
            maxItems=2,
        ),
        described(
            '{maxItems: 2, minItems: 2, order: ["integer", "string"]}',
            type="array",
            items=either(INTEGER, STRING),
        ),
    ),
    (
        "mixed values",
        {"enum": ["a", 1, None]},
        either({"type": "string", "enum": ["a"]}, {"type": "integer", "enum": [1]}, NULL),
        {"enum": ["a", 1, None]},
    ),
    (
        "values of another type",
        {"type": "string", "enum": ["a", 1]},
        {"type": "string", "enum": ["a"]},
        {"enum": ["a"]},
    ),
    ("values that are objects", {"enum": [{"a": 1}]}, TOOL, TOOL),
    ("no value", {"type": "integer", "enum": ["a"]}, TOOL, TOOL),
    (
        "overlapping oneOf",
        {"oneOf": [INTEGER, {"type": "number"}]},
        either(
            INTEGER, {"type": "number"}, description='{oneOf: "exactly one alternative may fit"}'
        ),
        either(
            INTEGER, {"type": "number"}, description='{oneOf: "exactly one alternative may fit"}'
        ),
    ),
    (
        "a choice beside keywords",
        {"type": "string", "anyOf": [{"format": "date"}, {"maxLength": 2}]},
        either({"type": "string", "format": "date"}, {"type": "string", "maxLength": 2}),
        either({"type": "string", "format": "date"}, described("{maxLength: 2}", type="string")),
    ),
    ("allOf in conflict", {"allOf": [STRING, INTEGER]}, TOOL, TOOL),
    ("a pattern of names", {"type": "object", "patternProperties": {"a": STRING}}, TOOL, TOOL),
    ("a choice with anything", {"anyOf": [STRING, {}]}, TOOL, TOOL),
]


@pytest.mark.parametrize(
    ("row", "schema", "openai", "anthropic"), ROWS, ids=[row[0] for row in ROWS]
)
def test_a_required_property_is_rewritten(
    row: str, schema: Json, openai: Any, anthropic: Any
) -> None:
    original = {"type": "object", "properties": {"t": schema}, "required": ["t"]}
    for dialect, wanted in ((OPENAI, openai), (ANTHROPIC, anthropic)):
        fitted = fit(original, dialect)
        judge_form(fitted, dialect)
        if wanted is TOOL:
            assert isinstance(fitted, ToolMode)
            assert "/properties/t" in fitted.reason
            continue
        if isinstance(wanted, str):
            wanted = described(wanted, type=schema["type"])  # noqa: PLW2901
        part = schema if wanted is SAME else wanted
        assert schema_of(fitted) == {
            "type": "object",
            "properties": {"t": part},
            "required": ["t"],
            **CLOSED,
        }


@pytest.mark.parametrize(
    ("schema", "openai", "anthropic"),
    [
        (INTEGER, either(INTEGER, NULL), INTEGER),
        (
            {"type": "integer", "default": 3, "title": "N"},
            either(INTEGER, NULL, description="{default: 3}"),
            described("{default: 3}", type="integer"),
        ),
        ({"type": ["integer", "null"]}, either(INTEGER, NULL), either(INTEGER, NULL)),
    ],
)
def test_an_optional_property_accepts_null_where_all_are_required(
    schema: Json, openai: Json, anthropic: Json
) -> None:
    original = {"type": "object", "properties": {"n": schema}}
    assert schema_of(fit(original, OPENAI)) == {
        "type": "object",
        "properties": {"n": openai},
        "required": ["n"],
        **CLOSED,
    }
    wanted = {"type": "object", "properties": {"n": anthropic}, **CLOSED}
    assert schema_of(fit(original, ANTHROPIC)) == wanted


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC], ids=lambda each: each.name)
def test_a_discriminated_choice_of_definitions_becomes_any_of(dialect: Dialect) -> None:
    choice = {
        "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
        "discriminator": {"propertyName": "kind"},
    }
    original = {"type": "object", "properties": {"pet": choice}, "$defs": PETS}
    found = schema_of(fit({**original, "required": ["pet"]}, dialect))
    assert found["properties"]["pet"] == either({"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"})
    assert found["$defs"].keys() == {"Cat", "Dog"}


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC], ids=lambda each: each.name)
def test_a_reference_with_a_description_becomes_any_of_one(dialect: Dialect) -> None:
    pet = {"$ref": "#/definitions/Cat", "description": "Yours."}
    original = {"type": "object", "properties": {"pet": pet}, "definitions": PETS}
    found = schema_of(fit({**original, "required": ["pet"]}, dialect))
    wanted = either({"$ref": "#/$defs/Cat"}, description="Yours.")
    assert found["properties"]["pet"] == wanted
    assert found["$defs"].keys() == {"Cat"}, "only what is reached"


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC], ids=lambda each: each.name)
def test_a_root_of_two_objects_becomes_one(dialect: Dialect) -> None:
    halves = [
        {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
        {"properties": {"b": INTEGER}, "required": ["b"]},
    ]
    assert schema_of(fit({"allOf": halves}, dialect)) == {
        "type": "object",
        "properties": {"a": STRING, "b": INTEGER},
        "required": ["a", "b"],
        **CLOSED,
    }


def test_a_recursive_type_is_kept_for_openai_alone() -> None:
    original = {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}
    node = {**NODE, **CLOSED}
    assert schema_of(fit(original, OPENAI)) == {**node, "$defs": {"Node": node}}
    assert fit(original, ANTHROPIC) == ToolMode("the type contains itself")


def test_a_root_that_refers_to_itself_gets_a_definition() -> None:
    tree = {"type": "object", "properties": {"sub": {"type": "array", "items": {"$ref": "#"}}}}
    found = schema_of(fit({**tree, "required": ["sub"]}, OPENAI))
    assert found["properties"]["sub"]["items"] == {"$ref": "#/$defs/root"}
    assert found["$defs"]["root"]["properties"] == found["properties"]


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC], ids=lambda each: each.name)
@pytest.mark.parametrize(
    "root", [either(INTEGER, STRING), {"type": "array", "items": INTEGER}, STRING]
)
def test_a_root_that_is_no_object_is_wrapped(root: Json, dialect: Dialect) -> None:
    fitted = fit(root, dialect)
    assert isinstance(fitted, Fitted)
    assert fitted.is_wrapped
    assert fitted.schema["properties"] == {"value": root}
    assert fitted.schema["required"] == ["value"]
    assert fitted.restored({"value": [1]}) == [1]
    assert fitted.restored("no object") == "no object"


@pytest.mark.parametrize(
    ("schema", "openai", "anthropic"),
    [
        ({"properties": strings(25)}, "", "the type has 25 optional properties"),
        (
            {
                "properties": {name: either(STRING, NULL) for name in strings(17)},
                "required": list(strings(17)),
            },
            "",
            "the type has 17 properties of several types",
        ),
        (
            {"properties": strings(5001), "required": list(strings(5001))},
            "the type has 5001 properties",
            "",
        ),
        (
            {"properties": {"a": {"enum": [str(n) for n in range(1001)]}}, "required": ["a"]},
            "the type has 1001 values in enumerations",
            "",
        ),
    ],
)
def test_a_schema_that_is_too_large_goes_to_tool_mode(
    schema: Json, openai: str, anthropic: str
) -> None:
    for dialect, reason in ((OPENAI, openai), (ANTHROPIC, anthropic)):
        fitted = fit({"type": "object", **schema}, dialect)
        found = fitted.reason if isinstance(fitted, ToolMode) else ""
        assert found.partition(",")[0] == reason


def test_eleven_levels_of_objects_are_too_many_for_openai() -> None:
    schema: Json = {"type": "object", "properties": {"v": INTEGER}, "required": ["v"]}
    for _ in range(9):
        schema = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    assert isinstance(fit(schema, OPENAI), Fitted)
    deeper = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    assert isinstance(fit(deeper, OPENAI), ToolMode)


def test_the_length_of_a_text_is_enforced_at_openai_alone() -> None:
    schema = {"type": "object", "properties": {"t": {"type": "string", "maxLength": 9}}}
    found = schema_of(fit({**schema, "required": ["t"]}, COMPATIBLE))
    assert found["properties"]["t"] == described("{maxLength: 9}", type="string")


def test_nulls_that_stand_for_absent_properties_are_removed() -> None:
    original = {
        "type": "object",
        "properties": {
            "a": INTEGER,
            "b": {"type": ["integer", "null"]},
            "c": {"type": "array", "items": {"anyOf": [CAT, DOG]}},
        },
        "required": ["c"],
    }
    fitted = fit(original, OPENAI)
    assert isinstance(fitted, Fitted)
    written = {
        "a": None,
        "b": None,
        "c": [{"kind": "dog", "s": None}, {"kind": "cat", "n": 1}, {"kind": None, "s": "x"}],
    }
    wanted = {"b": None, "c": [{"kind": "dog"}, {"kind": "cat", "n": 1}, {"s": "x"}]}
    assert fitted.restored(written) == wanted
    assert Schema(original).problems(wanted) == []
    assert fitted.restored({"a": None, "x": [None]}) == {"x": [None]}


@pytest.mark.parametrize("ref", ["#/properties/b", "#anchor"])
def test_a_reference_to_a_part_goes_to_tool_mode(ref: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": ref}, "b": {"$anchor": "anchor", "type": "string"}},
    }
    assert fit(schema, OPENAI) == ToolMode(f"{ref!r} refers to a part that is not under $defs")


def schema_of(fitted: Fitted | ToolMode) -> Json:
    assert isinstance(fitted, Fitted), fitted.reason
    return fitted.schema
