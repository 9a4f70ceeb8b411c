"""Builds a text that matches a regular expression, as a sample value of an output.

It guarantees that a returned text matches, and that time and length are bounded whatever the
pattern is, because authors write it. Not every pattern gets a text.

How: the pattern is parsed into parts, and each part yields a short plausible text. Whether a set
(`[a-z]`, `.`) allows a character is decided by the engine that checks outputs, so that both agree.
Lookarounds and word boundaries add nothing: the whole text is checked at the end, and discarded if
it does not match. Proof: tests/models/test_pattern_text.py.
"""

import re
import string
from collections.abc import Iterator
from functools import lru_cache

from penstock.core.json_values.schema import Schema

MAX_CHARS = 20_000
MAX_DEPTH = 50
WORD = "example"
_DIGITS = "1234567890"
_OTHERS = string.ascii_letters + _DIGITS + "-_ .,:;/@#+=!?*()[]{}<>\"'$%&|~^\\`\t\n" + "éÉßжЖ中あ😀"
_SET = re.compile(r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:[pP]\{[^}]*\}|[pP]\w|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{\w+\}|.)", re.DOTALL
)
_CODE = re.compile(r"\\[xu]\{?([0-9a-fA-F]+)\}?")
_TIMES = re.compile(r"\{(\d{1,9})(,?)(\d{1,9})?\}")
_GROUP = re.compile(r"\?(?:P?<\w+>|[imsxU-]*:)|\?")
_ADDS_NOTHING = re.compile(r"\?(?:[=!]|<[=!]|[imsxU-]+\))")
_EDGES = frozenset("bBAzZG")
_SETS = frozenset("nrtfv0dDwWsSpPxu")
"""Characters that mean a set or another character after a backslash. Others mean themselves."""


@lru_cache(256)
def text_for(pattern: str) -> str | None:
    """Return a text that the pattern matches, or None if none is found."""
    try:
        text, end = _Pattern(pattern).choice(0, 0)
    except ValueError:
        return None
    return text if end == len(pattern) and matches(pattern, text) else None


def matches(pattern: str, text: str) -> bool:
    """Whether an author's pattern matches somewhere in a text."""
    try:
        return not Schema({"pattern": pattern}).problems(text)
    except ValueError:
        return False


class _Pattern:
    """Parses a pattern from left to right. Raises ValueError at syntax that it does not know."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._groups: list[str] = []

    def choice(self, at: int, depth: int) -> tuple[str, int]:
        """Return a text for the first alternative that has one, and the end of the last."""
        if depth > MAX_DEPTH:
            raise ValueError(at)
        texts = [""]
        while at < len(self._pattern) and self._pattern[at] != ")":
            if self._pattern[at] == "|":
                texts.append("")
                at += 1
                continue
            part, at = self._repeated(at, depth)
            texts[-1] = _bounded(texts[-1] + part)
        return next((each for each in texts if each), ""), at

    def _repeated(self, at: int, depth: int) -> tuple[str, int]:
        """Return a text for one part and its repetition, and their end."""
        part, end = self._part(at, depth)
        least, most, after = self._times(end)
        if isinstance(part, _Characters):
            return part.text(least, most), after
        return _bounded(part * min(least, MAX_CHARS)) if part else "", after

    def _part(self, at: int, depth: int) -> tuple["str | _Characters", int]:
        match self._pattern[at]:
            case "(":
                return self._group(at + 1, depth)
            case "[":
                return self._characters(_SET, at)
            case ".":
                return _Characters("."), at + 1
            case "\\":
                return self._escape(at)
            case character:
                return "" if character in "^$" else character, at + 1

    def _escape(self, at: int) -> tuple["str | _Characters", int]:
        escaped = self._pattern[at + 1 : at + 2]
        if escaped in _SETS:
            return self._characters(_ESCAPE, at)
        if escaped in _EDGES:
            return "", at + 2
        if not escaped.isdecimal():
            return escaped, at + 2
        if int(escaped) > len(self._groups):
            raise ValueError(at)
        return self._groups[int(escaped) - 1], at + 2

    def _group(self, at: int, depth: int) -> tuple[str, int]:
        nothing = _ADDS_NOTHING.match(self._pattern, at)
        if nothing is not None and nothing[0].endswith(")"):
            return "", nothing.end()
        kind = nothing or _GROUP.match(self._pattern, at)
        number = len(self._groups) if kind is None or "<" in kind[0] else None
        if number is not None and nothing is None:
            self._groups.append("")
        text, end = self.choice(at if kind is None else kind.end(), depth + 1)
        if self._pattern[end : end + 1] != ")":
            raise ValueError(end)
        if nothing is not None:
            return "", end + 1
        if number is not None:
            self._groups[number] = text
        return text, end + 1

    def _characters(self, kind: re.Pattern[str], at: int) -> tuple["_Characters", int]:
        match = kind.match(self._pattern, at)
        if match is None:
            raise ValueError(at)
        return _Characters(match[0]), match.end()

    def _times(self, at: int) -> tuple[int, int | None, int]:
        """Return the least and the largest count of a part, and the end of that syntax."""
        sign = self._pattern[at : at + 1]
        if sign and sign in "*+?":
            least, most, end = int(sign == "+"), 1 if sign == "?" else None, at + 1
        elif (times := _TIMES.match(self._pattern, at)) is not None:
            least = int(times[1])
            most = least if not times[2] else int(times[3]) if times[3] else None
            end = times.end()
        else:
            return 1, 1, at
        is_lazy = self._pattern[end : end + 1] in {"?", "+"}
        return least, most, end + is_lazy


class _Characters:
    """A set of characters in the syntax of patterns."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._one = Schema({"pattern": f"^{source}$"})

    def text(self, least: int, most: int | None) -> str:
        """Return `least` characters or more: a word if the set has its letters."""
        fits = "".join(each for each in self._candidates() if not self._one.problems(each))
        if not fits:
            raise ValueError(self._source)
        for word in (WORD, WORD.upper()):
            if set(word) <= set(fits):
                count = max(least, len(word) if most is None else min(len(word), most))
                return "".join(word[each % len(word)] for each in _counted(count))
        return "".join(_nearest(fits, each) for each in _counted(least))

    def _candidates(self) -> Iterator[str]:
        yield from WORD + _DIGITS + _OTHERS
        yield from (chr(int(each[1], 16) % 0x110000) for each in _CODE.finditer(self._source))
        yield from self._source


def _nearest(fits: str, place: int) -> str:
    """Return a character for an index of a text: the next digit if the set has it."""
    digit = _DIGITS[place % len(_DIGITS)]
    return digit if digit in fits else fits[0]


def _counted(count: int) -> range:
    if count > MAX_CHARS:
        raise ValueError(count)
    return range(count)


def _bounded(text: str) -> str:
    if len(text) > MAX_CHARS:
        raise ValueError(text)
    return text
