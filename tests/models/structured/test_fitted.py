"""Fitted schemas are measured as providers do, and values written by them are restored."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.models.model import ModelCard
from penstock.models.structured.definitions import Part
from penstock.models.structured.fitted import (
    ABSENT,
    ANTHROPIC,
    COMPATIBLE,
    GOOGLE,
    OPENAI,
    Dialect,
    Fitted,
    dialect_of,
    excess,
    is_recursive,
)

INTEGER, NULL = {"type": "integer"}, {"type": "null"}
NODE: dict[str, Any] = {
    "type": "object",
    "properties": {"v": INTEGER, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, ABSENT]}},
}
CHOICE = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"k": {"enum": ["a"]}, "x": {"anyOf": [INTEGER, ABSENT]}},
            "required": ["k", "x"],
        },
        {
            "type": "object",
            "properties": {"k": {"enum": ["b"]}, "x": {"anyOf": [INTEGER, NULL]}},
            "required": ["k", "x"],
        },
    ]
}


@pytest.mark.parametrize(
    ("written", "restored"),
    [
        ({"k": "a", "x": None}, {"k": "a"}),
        ({"k": "b", "x": None}, {"k": "b", "x": None}),
        ({"k": "c", "x": None}, {"k": "c", "x": None}),
        ([1], [1]),
        (None, None),
    ],
)
def test_the_branch_that_fits_decides_what_a_null_means(written: Any, restored: Any) -> None:
    assert Fitted(CHOICE, is_wrapped=False).restored(written) == restored


def test_nulls_are_removed_at_every_level_of_a_recursive_type() -> None:
    fitted = Fitted({**NODE, "$defs": {"Node": NODE}}, is_wrapped=False)
    written = {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": None}}}
    assert fitted.restored(written) == {"v": 1, "next": {"v": 2, "next": {"v": 3}}}


def test_a_wrapped_value_is_unwrapped() -> None:
    wrapped = {"type": "object", "properties": {"value": {"type": "array", "items": NODE}}}
    fitted = Fitted({**wrapped, "$defs": {"Node": NODE}}, is_wrapped=True)
    assert fitted.restored({"value": [{"v": 1, "next": None}]}) == [{"v": 1}]
    assert fitted.restored({"other": 1}) == {"other": 1}


def test_definitions_are_measured_on_their_own() -> None:
    inner: Part = {"type": "object", "properties": {"v": {"$ref": "#/$defs/D"}}}
    for _ in range(9):
        inner = {"type": "object", "properties": {"v": inner}}
    assert excess({**inner, "$defs": {"D": inner}}, OPENAI) == ""
    assert excess({"type": "object", "properties": {"v": inner}}, OPENAI).startswith(
        "the type has 11 levels of objects, the provider takes 10"
    )


def test_optional_properties_of_definitions_do_not_count() -> None:
    many: Part = {"properties": {f"p{n}": {"type": "string"} for n in range(25)}}
    root: Part = {"properties": {"v": {"$ref": "#/$defs/D"}}, "$defs": {"D": many}}
    assert excess(root, ANTHROPIC) == ""
    assert excess(many, ANTHROPIC) == "the type has 25 optional properties, the provider takes 24"


@pytest.mark.parametrize(
    ("references", "is_loop"),
    [({"A": "B", "B": "C"}, False), ({"A": "B", "B": "A"}, True), ({"A": "A"}, True)],
)
def test_a_loop_of_definitions_is_recursive(references: dict[str, str], is_loop: bool) -> None:
    definitions = {
        name: {"type": "array", "items": {"$ref": f"#/$defs/{target}"}}
        for name, target in references.items()
    }
    assert is_recursive(definitions) is is_loop


@pytest.mark.parametrize(
    ("provider", "api", "dialect"),
    [
        ("openai", "openai", OPENAI),
        ("openai-responses", "openai-responses", OPENAI),
        ("llama.cpp", "openai", COMPATIBLE),
        ("anthropic", "anthropic", ANTHROPIC),
        ("google", "pydantic_ai", GOOGLE),
        ("google-cloud", "pydantic_ai", GOOGLE),
        ("groq", "pydantic_ai", COMPATIBLE),
    ],
)
def test_the_wire_and_the_provider_of_a_model_decide_its_dialect(
    provider: str, api: str, dialect: Dialect
) -> None:
    card = ModelCard(model_id="m", name="m", provider=provider, api=api)
    assert dialect_of(card) is None
    able = replace(card, json_schema=True)
    assert dialect_of(able) is dialect
