"""YAML 1.2 without surprises, with a position for every value."""

import pytest

from penstock.manifest.yaml_document import SourceRange, parse_yaml

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


def test_every_value_has_a_position() -> None:
    document = parse_yaml("a:\n  - b: 1\n    c: [x, y]\n", "x.yaml", first_line=10)
    assert document.value == {"a": [{"b": 1, "c": ["x", "y"]}]}
    assert document.keys["a", 0, "c"] == SourceRange(line=12, column=5)
    assert document.values["a", 0, "c", 1] == SourceRange(line=12, column=12)


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


RANGES = [
    ("a: 'x y'", ("a",), 4, 9),
    ("a: 'x\n  y'", ("a",), 4, 6),
    ("a: [1,\n 2]", ("a",), 4, 7),
    ("a:\n  b: 1  \n  c: 2", ("a",), 3, 7),
    ("a:", ("a",), 3, 4),
    ("a: |\n  text\n", ("a",), 4, 5),
]


@pytest.mark.parametrize(("text", "path", "column", "end"), RANGES)
def test_a_range_is_never_empty_and_stays_in_its_line(
    text: str, path: tuple[str], column: int, end: int
) -> None:
    """A range never is empty and never leaves the line of a scalar."""
    place = parse_yaml(text, "x.yaml").values[path]
    assert (place.column, place.end_column) == (column, end)


CONTENTS = [
    ("a: run", (1, 4)),
    ("a: 'run'", (1, 5)),
    ("a: |\n  run\n", (2, 3)),
    ("a: |\n\n\n    run\n", (2, 5)),
    ("a: |2\n     run\n", (2, 3)),
    ("a: >-\n  run\n", (2, 3)),
    ("a: |\n", (2, 1)),
]


@pytest.mark.parametrize(("text", "place"), CONTENTS)
def test_a_string_has_the_position_of_its_first_character(
    text: str, place: tuple[int, int]
) -> None:
    document = parse_yaml(text, "x.yaml")
    position = document.values.content(("a",), document.value["a"])
    assert (position.line, position.column) == place


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_an_infinite_number_stays_a_string(number: str) -> None:
    assert parse_yaml(number, "x.yaml").value == number


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    lines = [f"{name}: &{name} [{', '.join(['*' + before] * 9)}]" for before, name in ("ab", "bc")]
    document = parse_yaml("a: &a [x]\n" + "\n".join(lines), "x.yaml")
    assert [(each.code, each.line) for each in document.problems] == [("yaml-alias", 1)]
    assert not document.is_read


SCALAR_RANGES = [
    ("a: plain  # said", "plain"),
    ("a: 5 # said", "5"),
    ("a: 'quoted' # said", "'quoted'"),
    ('a: "😀 quoted"', '"😀 quoted"'),
    ("a: one\n  two # said", "one"),
    ("a: [1, 2] # said", "[1, 2] # said"),
    ("a:", None),
]


@pytest.mark.parametrize(("text", "shown"), SCALAR_RANGES)
def test_the_range_of_a_scalar_covers_only_the_scalar(text: str, shown: str | None) -> None:
    """Spec: "Wrong value, unknown reference: the scalar with its quotes"; "never is empty"."""
    place = parse_yaml(text, "x.yaml").values.get(("a",))
    if shown is None:
        assert place is None or place.end_column == place.column + 1
    else:
        assert place is not None
        assert text[place.column - 1 : place.end_column - 1] == shown
