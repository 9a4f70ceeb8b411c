"""Moments in the words of a pattern."""

from typing import Any

import pytest

from penstock.tools.scripts.timestamps import format_timestamp

AT = 1_795_251_600
"""2026-11-21T09:00:00Z"""
SAID = [
    ("YYYY-MM-DD HH:mm:ss", "UTC", "2026-11-21 09:00:00"),
    ("DD.MM.YYYY", "Europe/Berlin", "21.11.2026"),
    ("HH:mm", "America/New_York", "04:00"),
    ("[year]/[month]/[day]", "UTC", "2026/11/21"),
    ("[hour]h [minute]m [second]s YYYY", "UTC", "09h 00m 00s YYYY"),
    ("no letters", "UTC", "no letters"),
    ("[[year]", "UTC", "[2026"),
    ("[year", "UTC", "[year"),
    pytest.param("[" * 1_000_000, "UTC", "[" * 1_000_000, id="a million that are never closed"),
]
MISTAKES: list[dict[str, Any]] = [
    {"seconds": 1.5},
    {"seconds": "1"},
    {"seconds": True},
    {"seconds": None},
    {"seconds": float("inf")},
    {"seconds": 10**30},
    {"seconds": -(10**15)},
    {"format": ""},
    {"format": 1},
    {"format": "[week]"},
    {"timezone": ""},
    {"timezone": "Mars/Olympus"},
    {"timezone": "../../etc/passwd"},
    {"timezone": "/etc/localtime"},
    {"timezone": "a\0b"},
    {"timezone": 1},
]


@pytest.mark.parametrize(("pattern", "zone", "said"), SAID)
def test_a_moment_is_said_as_the_pattern_wants(pattern: str, zone: str, said: str) -> None:
    assert format_timestamp({"seconds": AT, "format": pattern, "timezone": zone}) == said


@pytest.mark.parametrize("wrong", MISTAKES)
def test_mistakes(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        format_timestamp({"seconds": AT, "format": "YYYY", "timezone": "UTC"} | wrong)


@pytest.mark.parametrize(
    ("seconds", "year"), [(-62_135_596_800, "0001"), (253_402_300_799, "9999")]
)
def test_the_first_and_the_last_year(seconds: int, year: str) -> None:
    given = {"seconds": seconds, "format": "YYYY", "timezone": "UTC"}
    assert format_timestamp(given) == year
