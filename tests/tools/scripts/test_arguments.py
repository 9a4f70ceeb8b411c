"""Arguments of host calls, which may be anything."""

from typing import Any

import pytest

from penstock.tools.scripts.arguments import (
    items,
    mapping,
    number,
    optional_number,
    optional_text,
    text,
)

NO_TEXT: list[Any] = [None, 1, "", True, [], {}, "x" * 11]
NO_NUMBER: list[Any] = [None, "1", True, [], -1, 11, 1e300, float("inf"), float("nan"), 10**400]


@pytest.mark.parametrize("found", NO_TEXT)
def test_a_text_is_a_text_of_the_right_length(found: Any) -> None:
    with pytest.raises(TypeError, match="a must be a text of 1 to 10 characters"):
        text({"a": found}, "a", most=10)


def test_a_text_that_may_be_left_out_may_be_empty() -> None:
    assert optional_text({}, "a") is None
    assert optional_text({"a": None}, "a") is None
    assert optional_text({"a": ""}, "a") == ""
    with pytest.raises(TypeError):
        optional_text({"a": 1}, "a")


def test_half_a_character_is_replaced() -> None:
    assert text({"a": "x\ud800"}, "a") == "x\ufffd"


@pytest.mark.parametrize("found", NO_NUMBER)
def test_a_number_is_a_number_in_its_range(found: Any) -> None:
    with pytest.raises(TypeError, match="a must be a number from 0 to 10"):
        number({"a": found}, "a", 0, 10)


def test_numbers_that_do() -> None:
    assert [number({"a": each}, "a", 0, 10) for each in (0, 0.5, 10)] == [0, 0.5, 10]
    assert optional_number({}, "a", 0, 10) is None
    with pytest.raises(TypeError):
        optional_number({"a": "1"}, "a", 0, 10)


@pytest.mark.parametrize("found", [None, 1, "x", True, []])
def test_an_object_is_an_object(found: Any) -> None:
    with pytest.raises(TypeError, match="a must be an object"):
        mapping({"a": found}, "a")
    assert mapping({}, "a") == {}


@pytest.mark.parametrize("found", [None, 1, "x", True, {}])
def test_a_list_is_a_list(found: Any) -> None:
    with pytest.raises(TypeError, match="a must be a list"):
        items({"a": found}, "a")
    assert items({}, "a") == []
