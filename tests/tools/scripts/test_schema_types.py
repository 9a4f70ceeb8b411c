"""JSON Schemas as TypeScript types."""

import re
from typing import Any

import pytest

from penstock.tools.scripts.schema_types import SchemaTypes, doc_comment, member

ANY = "FloJsonValue"


def shown(schema: Any) -> str:
    """Return a type on one line, with what it refers to before it."""
    types = SchemaTypes()
    text = types.of(schema, "t")
    return re.sub(r"\s+", " ", types.declarations() + text)


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "number"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": ["array", "boolean"], "items": {"type": "null"}}, "null[] | boolean"),
        ({"enum": ["a", 1, None, True]}, '"a" | 1 | null | true'),
        ({"enum": []}, "never"),
        ({"const": {"a": [1, "x"]}}, '{ a: [1, "x"] }'),
        ({"const": 'it "is" */'}, '"it \\"is\\" */"'),
        ({"type": "array"}, f"{ANY}[]"),
        ({"items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({"prefixItems": [{"type": "string"}, {}], "minItems": 1}, f"[string, {ANY}?, ...{ANY}[]]"),
        ({"prefixItems": [{"type": "string"}], "minItems": 1, "items": False}, "[string]"),
        ({"type": "object"}, f"{{ [key: string]: {ANY} }}"),
        ({"type": "object", "additionalProperties": False}, "{ [key: string]: never }"),
        ({"additionalProperties": {"type": "number"}}, "{ [key: string]: number }"),
        ({"anyOf": [{"type": "string"}, {"const": 1}]}, "string | 1"),
        ({"oneOf": [{"type": "string"}, {}]}, ANY),
        ({"allOf": [{"type": "string"}, {"enum": ["a", "b"]}]}, 'string & ("a" | "b")'),
        ({"type": "string", "anyOf": [{"const": "a"}, {"const": "b"}]}, 'string & ("a" | "b")'),
        ({}, ANY),
        (True, ANY),
        (False, "never"),
        ({"not": {"type": "string"}}, ANY),
        ({"type": "nothing such"}, ANY),
    ],
)
def test_a_schema_is_a_type(schema: Any, wanted: str) -> None:
    """Schema → type: as in §21; anything else is FloJsonValue."""
    assert shown(schema) == wanted


def test_an_object_has_marks_comments_and_an_index_unless_it_is_closed() -> None:
    """`object` with `?` and an index signature unless `additionalProperties: false`."""
    open_one = {
        "properties": {"a": {"type": "string", "description": "One\n line */"}, "b-c": {}},
        "required": ["a", "d"],
    }
    assert shown(open_one) == (
        f'{{ /** One line *\\/ */ a: string; "b-c"?: {ANY}; d: {ANY}; [key: string]: any; }}'
    )
    assert "[key" not in shown({**open_one, "additionalProperties": False})
    patterns = {**open_one, "additionalProperties": False, "patternProperties": {"x": {}}}
    assert "[key: string]: any" in shown(patterns)


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
            "type Flo_t_a = string; Flo_t_a",
        ),
        (
            {"properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
            "type Flo_t = { next?: Flo_t; }; { next?: Flo_t; }",
        ),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, ANY),
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}},
            },
            ANY,
        ),
        (
            {"prefixItems": [{"$ref": "#"}], "items": {"type": "array", "items": {"$ref": "#"}}},
            f"[{ANY}?, ...{ANY}[][]]",
        ),
        (
            {"prefixItems": [{}], "items": {"required": ["a"], "properties": {"a": {"$ref": "#"}}}},
            "type Flo_t = {0}; {0}".format(f"[{ANY}?, ...{{ a: Flo_t; [key: string]: any; }}[]]"),
        ),
        ({"$ref": "https://example.com/a"}, ANY),
        ({"$ref": "#/$defs/none"}, ANY),
        (
            {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"const": 1}}},
            "type Flo_t_a_1b_ = 1; Flo_t_a_1b_",
        ),
        ({"$ref": "#/anyOf/0", "anyOf": [{"const": 1}]}, "type Flo_t_0 = 1; Flo_t_0 & 1"),
    ],
)
def test_references_inside_a_schema_have_names(schema: Any, wanted: str) -> None:
    """Local `$ref` → named type."""
    assert shown(schema) == wanted


def test_names_are_told_apart() -> None:
    types = SchemaTypes()
    for name in ("a.b", "a-b"):
        types.of({"$ref": "#/$defs/c", "$defs": {"c": {"const": name}}}, name)
    assert types.declarations() == 'type Flo_a_b_c = "a.b";\ntype Flo_a_b_c_2 = "a-b";\n'


def test_what_lies_deeper_than_twelve_is_any_value() -> None:
    """Below depth 12 → `FloJsonValue`."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(12):
        schema = {"items": schema}
    assert shown(schema) == f"string{'[]' * 12}"
    assert shown({"items": schema}) == f"{ANY}{'[]' * 13}"


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"items": inner},
        lambda inner: {"prefixItems": [inner], "items": False},
        lambda inner: {"prefixItems": [True], "items": inner},
        lambda inner: {"properties": {"a": inner}},
        lambda inner: {"additionalProperties": inner},
        lambda inner: {"anyOf": [inner]},
        lambda inner: {"allOf": [inner]},
    ],
    ids=["items", "a tuple", "the rest", "a member", "other members", "either", "both"],
)
def test_every_way_down_ends_at_twelve(wrap: Any) -> None:
    schema: Any = {"const": "the end"}
    for depth in range(1, 20):
        schema = wrap(schema)
        assert ("the end" in shown(schema)) is (depth <= 12), depth


def test_types_that_are_made_of_each_other_are_any_value() -> None:
    chain = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{(at + 1) % 3}"}] * 2} for at in range(3)}
    assert shown({"$ref": "#/$defs/d0", "$defs": chain}) == ANY
    beside = {**chain, "e": {"anyOf": [{"$ref": "#/$defs/d0"}, {"const": 1}]}}
    assert shown({"$ref": "#/$defs/e", "$defs": beside}) == f"type Flo_t_e = {ANY}; Flo_t_e"


def test_a_long_chain_of_references_is_no_trouble() -> None:
    chain = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(400)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**chain, "d400": {"const": 1}}}
    assert "type Flo_t_d400 = 1;" in shown(schema)


def test_only_names_of_the_language_stand_without_quotes() -> None:
    assert [member(each) for each in ("a_1", "a.b", "1a", "é", "")] == [
        "a_1",
        '"a.b"',
        '"1a"',
        '"\\u00e9"',
        '""',
    ]


def test_a_description_that_says_nothing_is_no_comment() -> None:
    assert (doc_comment("  ", ""), doc_comment(None, ""), doc_comment("x", "  ")) == (
        "",
        "",
        "  /** x */\n",
    )


@pytest.mark.parametrize(("length", "shown_as"), [(500, "x" * 500), (501, "x" * 499 + "…")])
def test_a_description_has_at_most_five_hundred_characters(length: int, shown_as: str) -> None:
    assert doc_comment("x" * length, "") == f"/** {shown_as} */\n"
