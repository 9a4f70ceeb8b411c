"""Fields as tables."""

from pathlib import Path
from typing import Any

import pytest

from penstock.manifest.fields import Field, Node, found, read_fields
from penstock.manifest.files import ManifestFolder
from penstock.manifest.kinds import Boolean, Text
from penstock.manifest.yaml_document import SourceRange, parse_yaml

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
def test_what_was_found_is_a_type_and_the_beginning_of_the_value(value: Any, message: str) -> None:
    """`{found}` is a JSON type and the value cut to 60 characters."""
    assert found(value) == message


FIELDS = (
    Field(key="name", kind=Text(), required=True, meaning="A name."),
    Field(key="is_on", kind=Boolean(), default=True, meaning="Whether."),
)


def node(text: str) -> Node:
    document = parse_yaml(text, "f.yaml")
    home = ManifestFolder(folder=Path(), shown=".")
    return Node(document=document, home=home, what="a thing", value=document.value)


def test_a_table_is_read_with_defaults_for_what_is_left_out_or_wrong() -> None:
    read = node("nam: x\nis_on: 5\nx-own: {}\n")
    assert read_fields(read, FIELDS) == {"name": None, "is_on": True}
    assert [str(each) for each in read.document.problems] == [
        'f.yaml:1:1: error unknown-key: unknown key "nam" in a thing; did you mean "name"?',
        'f.yaml:1:1: error missing-key: a thing must have "name"',
        'f.yaml:2:8: error wrong-type: "is_on" must be true or false, found number 5',
    ]


def test_a_value_inside_has_its_path_and_its_place() -> None:
    inner = node("a:\n- b: {c: 1}\n").at("a", 0, "b", "c")
    assert (inner.name, inner.title, inner.value) == ("a[0].b.c", '"a[0].b.c"', 1)
    assert (inner.place, inner.key_place) == (
        SourceRange(line=2, column=10),
        SourceRange(line=2, column=7),
    )


@pytest.mark.parametrize("keys", [("x",), ("a", 5), ("a", 0, "b"), ("a", "b")])
def test_what_is_not_there_is_nothing(keys: tuple[str | int, ...]) -> None:
    assert node("a: [1]").at(*keys).value is None


def test_a_mapping_stands_where_the_key_stands_that_names_it() -> None:
    mapping = node("is_on: true\nname: a")
    assert mapping.line_of("name") == 2
    assert mapping.line_of("other") == 1
