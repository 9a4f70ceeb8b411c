"""Text for people and models: clipped, on one line, as preview, count or size."""

import math
import re
from itertools import islice
from typing import Any

ERROR_CHARS = 2000
"""Most characters of an error that a model reads, and as many of its details."""

_WORD = re.compile(r"\S+")
_LINE = re.compile(r"\S[^\r\n]*")
CHARACTERS_PER_TOKEN = 4
MESSAGE_TOKENS = 4


def cut(text: str, limit: int) -> str:
    """Return at most `limit` characters; the last is `…` if the text was longer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str) -> str:
    """Return the text with each run of white space replaced by one space."""
    return " ".join(text.split())


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens in a message with this text."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN) + MESSAGE_TOKENS


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `count(1, "tool")` is "1 tool", `count(2, "tool")` "2 tools".

    The plural is the noun with an `s`.
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size_text(size: int) -> str:
    """Return a number of bytes for people."""
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"


def preview(output: Any, limit: int) -> str:
    """Return one line for people about an output."""
    match output:
        case {"results": list(results)}:
            text = f"Found {count(len(results), 'result')}"
        case list():
            text = count(len(output), "item")
        case str():
            line = _LINE.search(output)
            text = _begin(output, *line.span(), limit) if line else ""
        case {"message": str(summary)} | {"summary": str(summary)} | {"title": str(summary)}:
            text = _begin(summary, 0, len(summary), limit)
        case dict():
            names = ", ".join(_begin(name, 0, len(name), limit) for name in islice(output, limit))
            text = count(len(output), "field") + (f": {names}" if names else "")
        case bool():
            text = "true" if output else "false"
        case int():
            text = str(output)
        case float() if math.isfinite(output):
            text = str(output)
        case _:
            text = "No output"
    return cut(text, limit)


def _begin(text: str, start: int, end: int, limit: int) -> str:
    """Return the words from `start` on in one line, not many more than `limit` characters."""
    words, length = [], -1
    for word in _WORD.finditer(text, start, end):
        words.append(text[word.start() : min(word.end(), word.start() + limit + 1)])
        length += len(words[-1]) + 1
        if length > limit:
            break
    return " ".join(words)
