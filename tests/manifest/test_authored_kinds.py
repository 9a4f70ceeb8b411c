"""What may be a list or one text, and the nearest name."""

from pathlib import Path

import pytest

from penstock.manifest.authored_kinds import MOST_UNKNOWN, Names, meant, named_items, warn_unknown
from penstock.manifest.fields import Node
from penstock.manifest.files.manifest_folder import ManifestFolder
from penstock.manifest.yaml.source import parse_yaml


@pytest.mark.parametrize(
    ("blocked_by", "wanted"),
    [
        ("a", [("a", 2)]),
        ("a, b ,, c", [("a", 2), ("b", 2), ("c", 2)]),
        ("\n  - a\n  - b", [("a", 3), ("b", 4)]),
        ("", []),
    ],
)
def test_a_list_may_be_one_text(blocked_by: str, wanted: list[tuple[str, int]]) -> None:
    """2.5: a list or one text split at commas. A line is that of the key, or the list item."""
    document = parse_yaml(f"id: x\nblockedBy: {blocked_by}", "a.yaml")
    home = ManifestFolder(folder=Path(), shown=".")
    node = Node(document=document, home=home, what="x", value=document.value).at("blockedBy")
    assert [(text, place.line) for text, place in named_items(node)] == wanted
    assert Names(wanted="names").read(node) == tuple(text for text, _ in wanted)


def test_the_nearest_is_asked_for_only_if_there_is_one() -> None:
    assert (meant(None), meant("a")) == (None, 'did you mean "a"?')


def test_of_many_unknown_keys_the_first_are_named_and_the_others_counted() -> None:
    """90,000 of them take no longer to tell than a hundred."""
    document = parse_yaml("".join(f"k{number}: 1\n" for number in range(3_000)), "a.yaml")
    home = ManifestFolder(folder=Path(), shown=".")
    node = Node(document=document, home=home, what="x", value=document.value)
    warn_unknown(node, ("name",), "the flow")
    *named, last = document.problems
    assert len(named) == MOST_UNKNOWN
    assert last.message == f"there are {3_000 - MOST_UNKNOWN} more unknown fields in the flow"
    assert (last.code, last.line) == ("unknown-field", MOST_UNKNOWN + 1)
