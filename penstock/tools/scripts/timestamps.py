"""`flo.time.formatUnixTimestamp`: a moment in words of a pattern."""

import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.tools.scripts.arguments import text

_LETTERS = re.compile(r"YYYY|MM|DD|HH|mm|ss")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
"""Without brackets inside: of many that are never closed each would be followed to the end."""
_WORDS = {
    "year": "YYYY",
    "month": "MM",
    "day": "DD",
    "hour": "HH",
    "minute": "mm",
    "second": "ss",
}


def format_timestamp(arguments: Any) -> str:
    """Return seconds since 1970 as the format says. Raises TypeError."""
    seconds = arguments.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds % 1:
        raise TypeError("seconds must be an integer")
    pattern, zone = text(arguments, "format"), text(arguments, "timezone")
    try:
        moment = datetime.fromtimestamp(int(seconds), UTC).astimezone(_zone(zone))
    except (OverflowError, OSError, ValueError):
        raise TypeError("seconds must be in the years 1 to 9999") from None
    parts = {
        "YYYY": f"{moment.year:04}",
        "MM": f"{moment.month:02}",
        "DD": f"{moment.day:02}",
        "HH": f"{moment.hour:02}",
        "mm": f"{moment.minute:02}",
        "ss": f"{moment.second:02}",
    }
    if "[" in pattern:
        return _BRACKETS.sub(lambda found: parts[_token(found[1])], pattern)
    return _LETTERS.sub(lambda found: parts[found[0]], pattern)


def _token(word: str) -> str:
    if word not in _WORDS:
        raise TypeError(f"unknown token [{word}]; known are {', '.join(_WORDS)}")
    return _WORDS[word]


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise TypeError(f"unknown time zone {name!r}") from None
