"""Lists and outputs as authors of flows and agents write them."""

from pathlib import Path
from typing import Any

import pytest

from penstock.core.events.flow_events import Output, ValueType
from penstock.manifest.authored_kinds import (
    MAX_UNKNOWN,
    Names,
    Outputs,
    fits,
    meant,
    named_items,
    warn_unknown,
)
from penstock.manifest.fields import Node
from penstock.manifest.files import ManifestFolder
from penstock.manifest.yaml_document import parse_yaml


@pytest.mark.parametrize(
    ("blocked_by", "expected"),
    [
        ("a", [("a", 2)]),
        ("a, b ,, c", [("a", 2), ("b", 2), ("c", 2)]),
        ("\n  - a\n  - b", [("a", 3), ("b", 4)]),
        ("", []),
    ],
)
def test_a_list_may_be_written_as_one_string(
    blocked_by: str, expected: list[tuple[str, int]]
) -> None:
    """2.5: a list or one text split at commas. A line is that of the key, or the list item."""
    document = parse_yaml(f"id: x\nblockedBy: {blocked_by}", "a.yaml")
    home = ManifestFolder(folder=Path(), shown=".")
    node = Node(document=document, home=home, what="x", value=document.value).at("blockedBy")
    assert [(text, place.line) for text, place in named_items(node)] == expected
    assert Names(expected="names").read(node) == tuple(text for text, _ in expected)


def test_a_suggestion_is_made_only_for_a_near_name() -> None:
    assert (meant(None), meant("a")) == (None, 'did you mean "a"?')


def test_the_first_unknown_keys_are_named_and_the_others_counted() -> None:
    """90,000 of them take no longer to report than a hundred."""
    document = parse_yaml("".join(f"k{number}: 1\n" for number in range(3_000)), "a.yaml")
    home = ManifestFolder(folder=Path(), shown=".")
    node = Node(document=document, home=home, what="x", value=document.value)
    warn_unknown(node, ("name",), "the flow")
    *named, last = document.problems
    assert len(named) == MAX_UNKNOWN
    assert last.message == f"there are {3_000 - MAX_UNKNOWN} more unknown fields in the flow"
    assert (last.code, last.line) == ("unknown-field", MAX_UNKNOWN + 1)


RESERVED = (
    "reserved: status, summary, artifacts, files, fullOutput, output, branch, error, finish, "
    "outputs, visits"
)


def read(outputs: str) -> tuple[Any, list[str]]:
    """Return what some outputs are read as, and the findings about them."""
    document = parse_yaml(f"outputs: {outputs}", "a.md")
    home = ManifestFolder(folder=Path(), shown=".")
    node = Node(document=document, home=home, what="x", value=document.value).at("outputs")
    value = Outputs().read(node)
    return value, [f"{e.line} {e.severity} {e.code}: {e.text}" for e in document.problems]


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("[]", ()),
        ("", ()),
        ("[a, b]", (Output(name="a"), Output(name="b"))),
        ("[{name: a, description: x}]", (Output(name="a", description="x"),)),
        (
            "[{name: a, type: number}]",
            (Output(name="a", value_type=ValueType.NUMBER, is_required=True),),
        ),
        (
            "[{name: a, pattern: '^x', required: false}]",
            (Output(name="a", pattern="^x"),),
        ),
        ("[{name: a, required: true}]", (Output(name="a", is_required=True),)),
    ],
)
def test_outputs_are_names_or_mappings(outputs: str, expected: tuple[Output, ...]) -> None:
    """With a type or a pattern, `required` defaults to true."""
    assert read(outputs) == (expected, [])


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (
            "a",
            (
                'error wrong-type: "outputs" must be a list of names or of '
                '{name, description, type, pattern, required}, found string "a"'
            ),
        ),
        (
            "[3]",
            (
                'error wrong-type: "outputs[0]" must be a name or {name, '
                "description, type, pattern, required}, found number 3"
            ),
        ),
        ("[{}]", 'error missing-field: missing required field "name" in outputs[0]'),
        (
            "[{name: 3}]",
            'error wrong-type: "outputs[0].name" must be an identifier, found number 3',
        ),
        (
            "[{name: a, type: integer}]",
            (
                'error bad-value: "outputs[0].type" must be string, number, '
                'boolean, object or array, found string "integer"'
            ),
        ),
        (
            "[{name: a, pattern: 3}]",
            'error wrong-type: "outputs[0].pattern" must be text, found number 3',
        ),
        ("[a, {name: a}]", 'error duplicate-output: output "a" is declared twice'),
        ("[visits]", f'error reserved-output: output "visits" is a reserved name; {RESERVED}'),
        ("[a b]", 'warning bad-output-name: output "a b" is not an identifier'),
        (
            "[{name: a, pattern: '('}]",
            (
                'warning bad-pattern: pattern of output "a" is not a regular expression: '
                "missing ), unterminated subpattern at position 0; it is ignored"
            ),
        ),
        ("[{name: a, knd: 1}]", 'warning unknown-field: unknown field "knd" in outputs[0]'),
    ],
)
def test_invalid_outputs_are_reported(outputs: str, expected: str) -> None:
    assert read(outputs)[1] == [f"1 {expected}"]


@pytest.mark.parametrize("pattern", ["(" * 5_000, "a{99999999999}", "[[a]", "(?<=a+)b"])
def test_checking_any_pattern_never_raises(pattern: str) -> None:
    _, message = read(f"[{{name: a, pattern: '{pattern}'}}]")
    assert all("bad-pattern" in each for each in message)


def test_a_bad_pattern_is_ignored() -> None:
    assert read("[{name: a, pattern: '('}]")[0] == (Output(name="a"),)


@pytest.mark.parametrize(
    ("value", "value_type", "expected"),
    [
        ("", ValueType.STRING, True),
        (1.5, ValueType.NUMBER, True),
        (True, ValueType.NUMBER, False),
        (True, ValueType.BOOLEAN, True),
        ({}, ValueType.OBJECT, True),
        ([], ValueType.OBJECT, False),
        ([], ValueType.ARRAY, True),
        (None, ValueType.STRING, False),
    ],
)
def test_values_fit_the_types_of_json(value: Any, value_type: ValueType, expected: bool) -> None:
    assert fits(value, value_type) is expected
