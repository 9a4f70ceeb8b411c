"""Cutting text."""

from typing import Any

import pytest
from hypothesis import given

from penstock.core.text import count, cut, estimate_tokens, one_line, preview, size_text
from tests.kit.json_values import FEW, json_values

SIZES = [(2**20, "1 MiB"), (3 * 2**19, "1536 KiB"), (1000, "1000 bytes")]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0 dry runs"), (1, "1 dry run"), (2, "2 dry runs")],
)
def test_a_count_agrees_with_its_noun(number: int, expected: str) -> None:
    assert count(number, "dry run") == expected


@pytest.mark.parametrize(("size", "expected"), SIZES)
def test_sizes_are_round_where_they_are(size: int, expected: str) -> None:
    assert size_text(size) == expected


PREVIEWS: list[tuple[Any, str]] = [
    ({"results": []}, "Found 0 results"),
    ({"results": [1]}, "Found 1 result"),
    ({"results": [1, 2], "message": "no"}, "Found 2 results"),
    ({"results": "many", "message": "yes"}, "yes"),
    ({"results": {"a": 1}}, "1 field: results"),
    ({"results": None, "total": 0}, "2 fields: results, total"),
    ([], "0 items"),
    ([{"results": []}], "1 item"),
    ([1, 2, 3], "3 items"),
    ("", ""),
    (" \n\t \r\n", ""),
    ("one\ntwo", "one"),
    ("\n \n  a \t b  \nc", "a b"),
    ("a\rb", "a"),
    ("\n" * 5000 + "late\nlater", "late"),
    ("a" + " " * 5000 + "b", "a b"),
    ({"message": "  said\n\tso  "}, "said so"),
    ({"title": "t", "summary": "s", "message": "m"}, "m"),
    ({"title": "t", "summary": "s"}, "s"),
    ({"title": "t", "summary": 1}, "t"),
    ({"message": 7, "title": None}, "2 fields: message, title"),
    ({"message": ""}, ""),
    ({}, "0 fields"),
    ({"a": 1}, "1 field: a"),
    ({"a": 1, "b": 2, "c": 3}, "3 fields: a, b, c"),
    ({"a\n b": 1, "c": 2}, "2 fields: a b, c"),
    (None, "No output"),
    (True, "true"),
    (False, "false"),
    (0, "0"),
    (-1.5, "-1.5"),
    (float("nan"), "No output"),
    (10**40, "1" + "0" * 40),
]


@pytest.mark.parametrize(("output", "text"), PREVIEWS, ids=range(len(PREVIEWS)))
def test_the_first_rule_that_fits_makes_the_preview(output: Any, text: str) -> None:
    """Chat API 6.4: "at most 200 characters, one line, first rule that fits"."""
    assert preview(output, 200) == text


LONG: list[tuple[Any, str]] = [
    ("x" * 200, "x" * 200),
    ("x" * 201, "x" * 199 + "…"),
    ("é" * 201, "é" * 199 + "…"),
    ("ab " * 67, ("ab " * 67).strip()),
    ("ab " * 68, ("ab " * 68)[:199] + "…"),
    ({"message": "m" * 10_000}, "m" * 199 + "…"),
    ({"k" * 500: 1}, "1 field: " + "k" * 190 + "…"),
    (10**300, "1" + "0" * 198 + "…"),
    (10**400, "1" + "0" * 198 + "…"),
]


@pytest.mark.parametrize(("output", "text"), LONG, ids=range(len(LONG)))
def test_longer_than_200_is_199_characters_and_an_ellipsis(output: Any, text: str) -> None:
    """Chat API 6.4: "Longer than 200: 199 characters and `…`"."""
    assert preview(output, 200) == text


@FEW
@given(json_values)
def test_a_preview_is_one_line_of_bounded_length(output: Any) -> None:
    line = preview(output, 200)
    assert len(line) <= 200
    assert line.strip() == one_line(line)


@pytest.mark.parametrize(
    ("text", "limit", "left"),
    [("", 5, ""), ("abcde", 5, "abcde"), ("abcdef", 5, "abcd…"), ("abc", 1, "…")],
)
def test_cut_text_ends_in_an_ellipsis(text: str, limit: int, left: str) -> None:
    assert cut(text, limit) == left


def test_white_space_of_every_kind_becomes_one_space() -> None:
    assert one_line(" a\r\n\tb\u00a0\u2003c\u2028 ") == "a b c"


@pytest.mark.parametrize(("characters", "tokens"), [(0, 4), (1, 5), (4, 5), (5, 6), (400, 104)])
def test_tokens_are_estimated_by_characters(characters: int, tokens: int) -> None:
    """Chat API 3.3: "Estimate: `ceil(characters / 4) + 4` per message"."""
    assert estimate_tokens("x" * characters) == tokens
