"""The kinds of fields, with valid and invalid values."""

from pathlib import Path
from typing import Any

import pytest

from penstock.manifest.document import Document
from penstock.manifest.fields import WRONG, Kind, Node
from penstock.manifest.files import ManifestFolder
from penstock.manifest.kinds import (
    Boolean,
    Id,
    Integer,
    ListOf,
    NonEmptyText,
    Number,
    OneOf,
    RecordKind,
    SetOf,
    Text,
    from_fields,
)
from tests.kit.manifests import findings, tool

KINDS: list[tuple[Kind, list[Any], list[Any]]] = [
    (Text(least=1, most=3), ["a", "abc"], ["", "abcd", 1, None, [], {}]),
    (Text(max_bytes=3), ["", "ä"], ["ää"]),
    (NonEmptyText(expected="a label"), ["a b"], ["", " a", "a ", "x" * 129, 1]),
    (Id(noun="tool"), ["a", "_1.-"], ["1", "a b", None, True]),
    (Integer(low=1, high=3), [1, 3], [0, 4, 1.0, "1", True, None]),
    (Number(low=1, high=3), [1, 1.5, 3], [0.9, 3.1, "2", False]),
    (Boolean(), [True, False], [0, "true", None]),
    (OneOf(words=("a", "b")), ["a"], ["c", "", 1, ["a"]]),
    (ListOf(item=Boolean(), expected="flags", most=2), [[], [True]], [[True] * 3, "x", {}]),
    (SetOf(words=("a", "b"), expected="some"), [["a"], ["b", "a"]], [[], ["a", "a"], [["a"]], "a"]),
    (RecordKind(fields=(), build=from_fields(dict)), [{}, {"x-a": 1}], [[], "a", None]),
]


def node(value: Any) -> Node:
    home = ManifestFolder(folder=Path(), shown=".")
    return Node(document=Document(file="f"), home=home, what="a thing", value=value, path=("k",))


@pytest.mark.parametrize(("kind", "good", "bad"), KINDS, ids=lambda each: type(each).__name__)
def test_a_kind_returns_a_valid_value_and_reports_an_invalid_one(
    kind: Kind, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        fits = node(value)
        assert kind.read(fits) is not WRONG
        assert fits.document.problems == []
    for value in bad:
        unfit = node(value)
        assert kind.read(unfit) is WRONG, value
        assert len(unfit.document.problems) == 1


def test_the_valid_items_of_a_list_are_kept() -> None:
    listed = node([True, 5, False])
    assert ListOf(item=Boolean(), expected="flags", most=3).read(listed) == (True, False)
    assert [each.message for each in listed.document.problems] == [
        '"k[1]" must be true or false, found number 5'
    ]


BROKEN_SCHEMAS = [
    (
        "{type: text}",
        (
            '3:22: error bad-schema: "input_schema" is not a valid JSON Schema (2020-12): '
            '"text" is not one of array, boolean, integer, null, number, object, string at /type'
        ),
    ),
    (
        "{type: object, properties: {a: {minimum: '1'}}}",
        (
            '3:56: error bad-schema: "input_schema" is not a valid JSON Schema (2020-12): '
            '"1" is not of type "number" at /properties/a/minimum'
        ),
    ),
    (
        "{type: object, properties: {a: {pattern: '('}}}",
        (
            '3:56: error bad-schema: "input_schema" is not a valid JSON Schema (2020-12): '
            '"(" is not a "regex" at /properties/a/pattern'
        ),
    ),
    (
        "{type: object, items: {$ref: '#/$defs/none'}}",
        (
            '3:44: error bad-schema: "input_schema" is not a valid JSON Schema (2020-12): '
            "Pointer '/$defs/none' does not exist at /items/$ref"
        ),
    ),
    (
        "{type: object, items: {$ref: 'https://example.com/x.json'}}",
        (
            '3:44: error remote-ref: "$ref" to "https://example.com/x.json" is refused: '
            "only references inside the same schema"
        ),
    ),
    (
        "{type: object, items: {$ref: 'https://example.com/x.json#/$defs/y'}}",
        (
            '3:44: error remote-ref: "$ref" to "https://example.com/x.json#/$defs/y" is refused: '
            "only references inside the same schema"
        ),
    ),
    (
        "{$id: 'https://a.example/b/c.json', type: object, items: {$ref: '../x.json#/y'}}",
        (
            '3:79: error remote-ref: "$ref" to "../x.json#/y" is refused: '
            "only references inside the same schema"
        ),
    ),
    (
        "{type: object, properties: {a: {$dynamicRef: other.json}}}",
        (
            '3:60: error remote-ref: "$ref" to "other.json" is refused: '
            "only references inside the same schema"
        ),
    ),
    (
        "{type: array}",
        (
            '3:22: error schema-not-object: "input_schema" must have type "object", '
            'found string "array"'
        ),
    ),
    (
        "{type: [object]}",
        (
            '3:22: error schema-not-object: "input_schema" must have type "object", '
            'found array ["object"]'
        ),
    ),
    (
        "{}",
        '3:15: error schema-not-object: "input_schema" must have type "object", found nothing',
    ),
    (
        "object",
        (
            '3:15: error wrong-type: "input_schema" must be a JSON Schema object, '
            'found string "object"'
        ),
    ),
]


@pytest.mark.parametrize(("schema", "message"), BROKEN_SCHEMAS)
def test_an_error_in_a_schema_is_reported_at_its_line(
    tmp_path: Path, schema: str, message: str
) -> None:
    reported = findings(tmp_path, {"a.tool.yaml": tool(input_schema=schema)})
    assert reported == [f"a.tool.yaml:{message}"]


SOUND_SCHEMAS = [
    "{type: object, properties: {$ref: {type: string}}}",
    "{type: object, default: {$ref: 'https://example.com'}, enum: [{$ref: x}]}",
    "{type: object, $defs: {n: {type: string}}, items: {$ref: '#/$defs/n'}}",
    "{type: object, $defs: {n: {$id: 'https://x.y/n'}}, items: {$ref: 'https://x.y/n'}}",
    "{type: object, unknown: 1, x-mine: 2}",
]


@pytest.mark.parametrize("schema", SOUND_SCHEMAS)
def test_a_schema_may_refer_to_itself_and_use_any_names(tmp_path: Path, schema: str) -> None:
    assert findings(tmp_path, {"a.tool.yaml": tool(input_schema=schema)}) == []


def test_every_error_in_a_schema_is_reported(tmp_path: Path) -> None:
    schema = "{type: object, required: a, minProperties: -1, items: {$ref: 'http://x/y'}}"
    reported = findings(tmp_path, {"a.tool.yaml": tool(input_schema=schema)})
    assert [each.split(": ")[1] for each in reported] == [
        "error bad-schema",
        "error bad-schema",
        "error remote-ref",
    ]


def test_a_finding_about_a_long_name_is_short(tmp_path: Path) -> None:
    schema = f"{{type: object, properties: {{? {'n' * 9000}\n: {{type: x}}}}}}"
    (finding,) = findings(tmp_path, {"a.tool.yaml": tool(input_schema=schema)})
    assert len(finding) < 800
    assert "is not one of array" in finding
