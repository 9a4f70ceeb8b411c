"""Positions of the parts of a document."""

import pytest

from penstock.manifest.document import SourceRange
from penstock.manifest.yaml_document import parse_yaml


def test_every_value_has_a_position() -> None:
    document = parse_yaml("a:\n  - b: 1\n    c: [x, y]\n", "x.yaml", first_line=10)
    assert document.value == {"a": [{"b": 1, "c": ["x", "y"]}]}
    assert document.keys["a", 0, "c"] == SourceRange(line=12, column=5)
    assert document.values["a", 0, "c", 1] == SourceRange(line=12, column=12)


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
