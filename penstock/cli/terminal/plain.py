"""Texts and values as a terminal may show them: nothing in them steers it."""

import json
import re
from typing import Any

from penstock.core.canonical import without_surrogates

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Return the text without what could steer a terminal, or has no bytes."""
    return _CONTROL.sub("\ufffd", without_surrogates(text).replace("\r\n", "\n"))


def compact(value: Any) -> str:
    """Return a value as short JSON."""
    return without_surrogates(json.dumps(value, ensure_ascii=False))


def pretty(value: Any) -> str:
    """Return a value as JSON of several lines."""
    return without_surrogates(json.dumps(value, ensure_ascii=False, indent=2))
