"""Texts and values as a terminal may show them: nothing in them steers it."""

import json
import re
import shlex
from typing import Any

from penstock.core.json_values.canonical import without_surrogates

BAR = "  │ "
"""Begins each line of what others wrote but the first, which penstock introduces."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Return the text without what could steer a terminal, or has no bytes."""
    return _CONTROL.sub("\ufffd", without_surrogates(text).replace("\r\n", "\n"))


def hanging(text: str) -> str:
    """Return the text clean, each further line behind a bar: none passes for a line of penstock."""
    return clean(text).replace("\n", f"\n{BAR}")


def is_plain(text: str) -> bool:
    """Whether a text is one line that a terminal shows as it is, so that it can be pasted."""
    return bool(text) and "\n" not in text and clean(text) == text


def pasted(*words: str) -> str:
    """Return a command that a shell takes as these words when it is pasted."""
    return shlex.join(words)


def compact(value: Any) -> str:
    """Return a value as short JSON."""
    return _escaped(json.dumps(value, ensure_ascii=False))


def pretty(value: Any) -> str:
    """Return a value as JSON of several lines."""
    return _escaped(json.dumps(value, ensure_ascii=False, indent=2))


def _escaped(text: str) -> str:
    """Return JSON that is the same value; json.dumps escapes only the first 32 characters."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", without_surrogates(text))
