"""What may be a list or one text, and the nearest name."""

import pytest

from penstock.manifest.authored_kinds import meant, named_items
from tests.flows.texts import read


@pytest.mark.parametrize(
    ("blocked_by", "wanted"),
    [
        ("a", [("a", 6)]),
        ("a, b ,, c", [("a", 6), ("b", 6), ("c", 6)]),
        ("\n  - a\n  - b", [("a", 7), ("b", 8)]),
        ("", []),
    ],
)
def test_a_list_may_be_one_text(blocked_by: str, wanted: list[tuple[str, int]]) -> None:
    """2.5: a list or one text split at commas. A line is that of the key, or the list item."""
    steps = read(f"- id: x\n  agent: y\n  blockedBy: {blocked_by}").steps
    found = named_items(steps[0].node.at("blockedBy"))
    assert [(text, place.line) for text, place in found] == wanted
    assert steps[0].step.blocked_by == tuple(text for text, _ in wanted)


def test_the_nearest_is_asked_for_only_if_there_is_one() -> None:
    assert (meant(None), meant("a")) == (None, 'did you mean "a"?')
