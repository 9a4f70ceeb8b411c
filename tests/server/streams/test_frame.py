"""Frames and their places: how ids read, what was seen."""

import pytest

from penstock.core.errors import BadLastEventId
from penstock.server.streams.frame import Position, UnseenFrames


@pytest.mark.parametrize(
    ("text", "position"),
    [("6", Position(6)), ("6.0", Position(6, 0)), ("3.17", Position(3, 17))],
)
def test_ids_are_read_back(text: str, position: Position) -> None:
    assert Position.parse(text) == position
    assert str(position) == text


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "1.", ".5", "1.2.3", "01", "1.02", " 1", "1\n", "\u0661", "9" * 19, "1.-1"],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(BadLastEventId):
        Position.parse(text)


def test_the_order_of_ids() -> None:
    """`3.5` comes before `3.17`, and `6` before `6.0`."""
    texts = ["3", "3.0", "3.5", "3.17", "6", "6.0"]
    assert [str(each) for each in sorted(map(Position.parse, reversed(texts)))] == texts


def test_what_was_seen_is_passed_over_and_the_rest_is_taken_once() -> None:
    unseen = UnseenFrames(Position(3, 5))
    for place in (Position(3), Position(3, 5), Position(3, 9), Position(3, 7), Position(4)):
        unseen.add(place, {"at": str(place)})
    assert [frame["at"] for _, frame in unseen.take()] == ["3.9", "4"]
    assert unseen.take() == []
    assert unseen.last == Position(4)
