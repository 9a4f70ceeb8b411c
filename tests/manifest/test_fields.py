"""Fields as tables."""

from pathlib import Path
from typing import Any

import pytest

from penstock.manifest.document import SourceRange
from penstock.manifest.fields import Field, Node, described, read_fields
from penstock.manifest.files import ManifestFolder
from penstock.manifest.kinds import Boolean, Text
from penstock.manifest.yaml_document import parse_yaml

FOUND: list[tuple[Any, str]] = [
    ("30s", 'string "30s"'),
    (5, "number 5"),
    (1.5, "number 1.5"),
    (True, "boolean true"),
    (None, "null"),
    ([1, "a"], 'array [1, "a"]'),
    ({"a": None}, 'object {"a": null}'),
    ("x" * 61, f'string "{"x" * 59}…"'),
    ("\x1b[31m\n", 'string "\\u001b[31m\\n"'),
    (list(range(100)), f"array {str(list(range(100)))[:59]}…"),
]


@pytest.mark.parametrize(("value", "message"), FOUND, ids=range(len(FOUND)))
def test_a_found_value_is_shown_with_its_type_and_start(value: Any, message: str) -> None:
    """`{found}` is a JSON type and the value cut to 60 characters."""
    assert described(value) == message


FIELDS = (
    Field(key="name", kind=Text(), required=True, meaning="A name."),
    Field(key="is_on", kind=Boolean(), default=True, meaning="Whether."),
)


def node(text: str) -> Node:
    document = parse_yaml(text, "f.yaml")
    home = ManifestFolder(folder=Path(), shown=".")
    return Node(document=document, home=home, what="a thing", value=document.value)


def test_missing_and_invalid_fields_have_their_defaults() -> None:
    read = node("nam: x\nis_on: 5\nx-own: {}\n")
    assert read_fields(read, FIELDS) == {"name": None, "is_on": True}
    assert [str(each) for each in read.document.problems] == [
        'f.yaml:1:1: error unknown-key: unknown key "nam" in a thing; did you mean "name"?',
        'f.yaml:1:1: error missing-key: a thing must have "name"',
        'f.yaml:2:8: error wrong-type: "is_on" must be true or false, found number 5',
    ]


def test_a_nested_value_has_a_path_and_a_position() -> None:
    inner = node("a:\n- b: {c: 1}\n").at("a", 0, "b", "c")
    assert (inner.name, inner.title, inner.value) == ("a[0].b.c", '"a[0].b.c"', 1)
    assert (inner.place, inner.key_place) == (
        SourceRange(line=2, column=10),
        SourceRange(line=2, column=7),
    )


@pytest.mark.parametrize("keys", [("x",), ("a", 5), ("a", 0, "b"), ("a", "b")])
def test_a_missing_path_has_the_value_none(keys: tuple[str | int, ...]) -> None:
    assert node("a: [1]").at(*keys).value is None


def test_a_missing_field_is_reported_at_the_key_of_its_mapping() -> None:
    mapping = node("is_on: true\nname: a")
    assert mapping.line_of("name") == 2
    assert mapping.line_of("other") == 1
