"""The declarations of `flo.d.ts`, and JSON Schemas as TypeScript types."""

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.tools.scripts.typings import MARK, SchemaTypes, Typings, declare, doc_comment, member
from penstock.tools.spec import ToolSpec
from tests.kit.manifests import load, skill, tool

FILES = {
    "a/a.skill.yaml": skill(
        "tools: [t_listed]\nscript_tools: [t_helper]\nrequires_skills: [b]\ntool_definitions:\n"
        "- name: t_inline\n  description: In.\n  input_schema: {type: object}\n"
        '  execution: {type: script, script: "export function run() {}"}',
        skill_id="a",
    ),
    "b/b.skill.yaml": skill("tools: [t_req]", skill_id="b"),
    "far/listed.tool.yaml": tool(name="t_listed"),
    "far/helper.tool.yaml": tool(name="t_helper"),
    "far/req.tool.yaml": tool(name="t_req"),
    "far/other.tool.yaml": tool(name="t_other"),
    "open/direct.tool.yaml": tool("direct_call: true\nscript_tools: [t_own]", name="t_direct"),
    "own/own.tool.yaml": tool(name="t_own"),
    "prompt/p.prompts.yaml": "execution: {preamble: x}\nsystem_prompt_resolver: "
    "{script_file: a.mts, entrypoint: run, timeout_ms: 5}",
    "prompt/a.mts": "",
    "lone/lone.tool.yaml": tool("script_tools: [t_other]", name="t_lone"),
}
BUILT_IN = ToolSpec(tool_id="read_text_file", description="Read.", input_schema={"type": "object"})
ALWAYS = {"read_text_file", "t_direct"}


@pytest.fixture
def typings(tmp_path: Path) -> Typings:
    """The typings of a project with skills, helpers and a direct call."""
    bundle = load(tmp_path, FILES)
    return Typings(bundle, bundle.skills, [BUILT_IN], "1.0")


@pytest.mark.parametrize(
    ("folder", "reached"),
    [
        ("a", {"t_listed", "t_helper", "t_inline", "t_req"}),
        ("b", {"t_req"}),
        ("open", {"t_own"}),
        ("own", set()),
        ("lone", set()),
        ("far", {"t_listed", "t_helper", "t_inline", "t_req"}),
    ],
)
def test_a_folder_declares_the_tools_that_its_scripts_reach(
    typings: Typings, folder: str, reached: set[str]
) -> None:
    """Skill `tools`, `script_tools`, inline tools, required skills, own `script_tools`."""
    text = typings.declare_for([folder])
    result = {each for each in (*ALWAYS, *KNOWN) if f"\n  {each}: {{\n" in text}
    assert result == ALWAYS | reached


KNOWN = ("t_listed", "t_helper", "t_inline", "t_req", "t_other", "t_own", "t_lone")


def test_every_folder_with_manifests_has_a_file(typings: Typings) -> None:
    assert typings.folders() == ["a", "b", "far", "lone", "open", "own", "prompt"]


def test_a_tool_has_its_input_and_its_output() -> None:
    """Input from `input_schema`, output from `output_schema` (else `FloJsonValue`)."""
    spec = ToolSpec(
        tool_id="x.y",
        description="Does it.",
        input_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
        output_schema={"type": "string"},
        kind="script",
    )
    text = declare([spec, BUILT_IN], "1.0")
    assert text.startswith(f"{MARK}1.0, ")
    assert text.endswith(
        "interface FloToolMap {\n"
        '  /** Does it. */\n  "x.y": {\n    input: {\n      n?: number;\n'
        "      [key: string]: any;\n    };\n    output: string;\n  };\n"
        "  /** Read. */\n  read_text_file: {\n    input: { [key: string]: FloJsonValue };\n"
        '    output: FloBuiltInOutputs["read_text_file"];\n  };\n}\n'
    )


def test_a_broken_tool_keeps_its_types(tmp_path: Path) -> None:
    bundle = load(tmp_path, {"a.tool.yaml": tool("direct_call: true\ntimeout: 5")})
    assert "\n  a: {\n" in Typings(bundle, {}, [], "1.0").declare_for(["."])


ANY = "FloJsonValue"


def shown(schema: Any) -> str:
    """Return a type on one line, with what it refers to before it."""
    types = SchemaTypes()
    text = types.type_of(schema, "t")
    return re.sub(r"\s+", " ", types.declarations() + text)


@pytest.mark.parametrize(
    ("schema", "expected"),
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
def test_a_schema_becomes_a_type(schema: Any, expected: str) -> None:
    """Schema → type: as in §21; anything else is FloJsonValue."""
    assert shown(schema) == expected


def test_an_object_type_has_optional_marks_comments_and_an_index() -> None:
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
    ("schema", "expected"),
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
def test_references_inside_a_schema_have_names(schema: Any, expected: str) -> None:
    """Local `$ref` → named type."""
    assert shown(schema) == expected


def test_names_of_types_are_unique() -> None:
    types = SchemaTypes()
    for name in ("a.b", "a-b"):
        types.type_of({"$ref": "#/$defs/c", "$defs": {"c": {"const": name}}}, name)
    assert types.declarations() == 'type Flo_a_b_c = "a.b";\ntype Flo_a_b_c_2 = "a-b";\n'


def test_types_deeper_than_twelve_levels_are_any_json() -> None:
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
def test_every_kind_of_nesting_ends_at_twelve_levels(wrap: Any) -> None:
    schema: Any = {"const": "the end"}
    for depth in range(1, 20):
        schema = wrap(schema)
        assert ("the end" in shown(schema)) is (depth <= 12), depth


def test_circular_types_are_any_json() -> None:
    chain = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{(at + 1) % 3}"}] * 2} for at in range(3)}
    assert shown({"$ref": "#/$defs/d0", "$defs": chain}) == ANY
    beside = {**chain, "e": {"anyOf": [{"$ref": "#/$defs/d0"}, {"const": 1}]}}
    assert shown({"$ref": "#/$defs/e", "$defs": beside}) == f"type Flo_t_e = {ANY}; Flo_t_e"


def test_a_long_chain_of_references_is_declared() -> None:
    chain = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(400)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**chain, "d400": {"const": 1}}}
    assert "type Flo_t_d400 = 1;" in shown(schema)


def test_only_identifiers_are_unquoted() -> None:
    assert [member(each) for each in ("a_1", "a.b", "1a", "é", "")] == [
        "a_1",
        '"a.b"',
        '"1a"',
        '"\\u00e9"',
        '""',
    ]


def test_a_blank_description_makes_no_comment() -> None:
    assert (doc_comment("  ", ""), doc_comment(None, ""), doc_comment("x", "  ")) == (
        "",
        "",
        "  /** x */\n",
    )


@pytest.mark.parametrize(("length", "shown_as"), [(500, "x" * 500), (501, "x" * 499 + "…")])
def test_a_description_has_at_most_five_hundred_characters(length: int, shown_as: str) -> None:
    assert doc_comment("x" * length, "") == f"/** {shown_as} */\n"
