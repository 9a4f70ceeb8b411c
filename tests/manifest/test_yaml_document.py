"""YAML 1.2 without surprises, with a position for every value."""

import pytest

from penstock.manifest.document import SourceRange
from penstock.manifest.yaml_document import parse_yaml

SCALARS = [
    ("yes", "yes"),
    ("on", "on"),
    ("1:30", "1:30"),
    ("2020-01-01", "2020-01-01"),
    ("true", True),
    ("'true'", "true"),
    ("~", None),
    ("", None),
    ("12", 12),
    ("0x1f", 31),
    ("1.5e3", 1500.0),
    ("1_000", "1_000"),
]


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    document = parse_yaml(f"a: {text}", "x.yaml")
    assert document.value == {"a": value}
    assert not document.problems


NO_ALIAS = "error yaml-alias: anchors, aliases, merge keys and tags are not allowed in a manifest"
REFUSED = [
    ("a: [1", "1:6: error yaml-syntax: not valid YAML: did not find expected ',' or ']'"),
    (
        "a: &x 1",
        f"1:4: {NO_ALIAS}",
    ),
    (
        "a: *x",
        f"1:4: {NO_ALIAS}",
    ),
    (
        "a: !!python/object:os.x 1",
        f"1:4: {NO_ALIAS}",
    ),
    ("a: 1\n\tb: 2", "2:1: error yaml-syntax: not valid YAML: a tab indents this line; use spaces"),
    ("a:\n\tb: 2", "2:1: error yaml-syntax: not valid YAML: a tab indents this line; use spaces"),
    (
        "a: 1\nb: 'it is\nc: 2\n",
        "2:4: error yaml-syntax: not valid YAML: a quote is opened here, and never closed",
    ),
    (
        "a: @x",
        '1:4: error yaml-syntax: not valid YAML: a value may not begin with "@"; put it in quotes',
    ),
    ("a: !!str 5", f"1:4: {NO_ALIAS}"),
    ("a: ! 5", f"1:4: {NO_ALIAS}"),
    ("!!str a: 5", f"1:1: {NO_ALIAS}"),
    ("a: !!seq [1]", f"1:4: {NO_ALIAS}"),
    (
        "<<: {}",
        f"1:1: {NO_ALIAS}",
    ),
    ("a: 1\na: 2", '2:1: error yaml-duplicate-key: key "a" appears twice; first at line 1'),
    (
        "? {0}\n: 1\n? {0}\n: 2".format("k" * 90),
        '3:3: error yaml-duplicate-key: key "{}…" appears twice; first at line 1'.format("k" * 59),
    ),
    ("? [a]\n: 1", "1:3: error yaml-syntax: not valid YAML: a key must be a text"),
    (
        "a: 1\n---\nb: 1",
        "2:1: error yaml-many-documents: one manifest per file; found 2 documents",
    ),
    ("[" * 100_000, "1:66: error yaml-syntax: not valid YAML: nested more than 64 levels deep"),
    (
        "a: \x01",
        (
            "1:4: error yaml-syntax: not valid YAML: unacceptable character #x0001: "
            "control characters are not allowed"
        ),
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_forbidden_yaml_is_reported_at_its_position(text: str, message: str) -> None:
    document = parse_yaml(text, "x.yaml")
    assert [str(each) for each in document.problems] == [f"x.yaml:{message}"]


def test_a_lone_surrogate_is_reported_and_does_not_raise() -> None:
    (finding,) = parse_yaml("a: 1\nb: \ud800", "x.yaml").problems
    assert str(finding) == "x.yaml:2:1: error file-encoding: not UTF-8 at character 8"


def test_a_byte_order_mark_does_not_shift_positions() -> None:
    document = parse_yaml("\ufeffa: 1\n", "x.yaml")
    assert (document.value, document.keys["a",]) == ({"a": 1}, SourceRange(line=1, column=1))


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("a: é\nb: \0", 2, 4), ("é: \x01", 1, 4), ("a: \ufffe", 1, 4), ('a: "\\ud800"', 1, 7)],
)
def test_a_forbidden_character_is_reported_at_its_position(
    text: str, line: int, column: int
) -> None:
    (finding,) = parse_yaml(text, "x.yaml").problems
    assert (finding.code, finding.line, finding.column) == ("yaml-syntax", line, column)


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_an_infinite_number_stays_a_string(number: str) -> None:
    assert parse_yaml(number, "x.yaml").value == number


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    lines = [f"{name}: &{name} [{', '.join(['*' + before] * 9)}]" for before, name in ("ab", "bc")]
    document = parse_yaml("a: &a [x]\n" + "\n".join(lines), "x.yaml")
    assert [(each.code, each.line) for each in document.problems] == [("yaml-alias", 1)]
    assert not document.is_read
