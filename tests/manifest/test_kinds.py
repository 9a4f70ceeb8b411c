"""What the fields of manifests may be."""

from pathlib import Path
from typing import Any

import pytest

from penstock.manifest.fields import WRONG, Kind, Node
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
from penstock.manifest.manifest_folder import ManifestFolder
from penstock.manifest.source import Document

KINDS: list[tuple[Kind, list[Any], list[Any]]] = [
    (Text(least=1, most=3), ["a", "abc"], ["", "abcd", 1, None, [], {}]),
    (Text(most_bytes=3), ["", "ä"], ["ää"]),
    (NonEmptyText(wanted="a label"), ["a b"], ["", " a", "a ", "x" * 129, 1]),
    (Id(noun="tool"), ["a", "_1.-"], ["1", "a b", None, True]),
    (Integer(low=1, high=3), [1, 3], [0, 4, 1.0, "1", True, None]),
    (Number(low=1, high=3), [1, 1.5, 3], [0.9, 3.1, "2", False]),
    (Boolean(), [True, False], [0, "true", None]),
    (OneOf(words=("a", "b")), ["a"], ["c", "", 1, ["a"]]),
    (ListOf(item=Boolean(), wanted="flags", most=2), [[], [True]], [[True] * 3, "x", {}]),
    (SetOf(words=("a", "b"), wanted="some"), [["a"], ["b", "a"]], [[], ["a", "a"], [["a"]], "a"]),
    (RecordKind(fields=(), build=from_fields(dict)), [{}, {"x-a": 1}], [[], "a", None]),
]


def node(value: Any) -> Node:
    home = ManifestFolder(folder=Path(), shown=".")
    return Node(document=Document(file="f"), home=home, what="a thing", value=value, path=("k",))


@pytest.mark.parametrize(("kind", "good", "bad"), KINDS, ids=lambda each: type(each).__name__)
def test_a_kind_takes_what_fits_and_notes_what_does_not(
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


def test_of_a_list_what_could_be_read_is_kept() -> None:
    listed = node([True, 5, False])
    assert ListOf(item=Boolean(), wanted="flags", most=3).read(listed) == (True, False)
    assert [each.message for each in listed.document.problems] == [
        '"k[1]" must be true or false, found number 5'
    ]
