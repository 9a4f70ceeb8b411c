"""Makes text safe for a terminal: no control characters, and no line that imitates penstock.

Removed are C0 and C1 control characters except tab and line feed, and the bidirectional overrides
U+202A-U+202E and U+2066-U+2069, which can make a line read differently from what it is. Each line
after the first starts with a bar, so a tool's output cannot pass for a prompt of penstock.

Proof: tests/cli/terminal/test_plain.py.
"""

import json
import re
import shlex
from typing import Any

from penstock.core.json_values.json_text import without_surrogates

BAR = "  │ "
"""Prefix of each further line of text that penstock did not write."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Return the text with U+FFFD for control characters and lone surrogates."""
    return _CONTROL.sub("\ufffd", without_surrogates(text).replace("\r\n", "\n"))


def hanging(text: str) -> str:
    """Return clean text whose further lines start with a bar."""
    return clean(text).replace("\n", f"\n{BAR}")


def is_plain(text: str) -> bool:
    """Whether a text is one line without control characters, so that it can be pasted."""
    return bool(text) and "\n" not in text and clean(text) == text


def pasted(*words: str) -> str:
    """Return the words as one command line, quoted for a shell."""
    return shlex.join(words)


def compact(value: Any) -> str:
    """Return a value as short JSON."""
    return _escaped(json.dumps(value, ensure_ascii=False))


def pretty(value: Any) -> str:
    """Return a value as JSON of several lines."""
    return _escaped(json.dumps(value, ensure_ascii=False, indent=2))


def _escaped(text: str) -> str:
    """Escape control characters in JSON. json.dumps escapes only those below U+0020."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", without_surrogates(text))
