"""Templates with `${{…}}` placeholders in the texts of flows and agents.

Guarantees: a template is parsed once and expanded in one pass. Inserted text is not parsed, so text
of a model or a person cannot reference a value (no injection). Parsing takes linear time for any
input: `_Ends` remembers the last closing that it found, because searching the rest of the line
again for each `${{` would be quadratic. The cache of parsed templates is bounded in number and
length. A placeholder that names nothing stays in the text and is reported by the checks of flows.

Shown by tests/manifest/test_template.py.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct

from penstock.core.json_values.json_text import compact

OPENING, CLOSING, LITERAL = "${{", "}}", "$${{"
_PLACE = re.compile(r"\$?\$\{\{")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SINGLE = re.compile(
    r"(?<![${])\{[ \t]*("
    rf"task|(?:input|config|flow\.input)\.{_NAME.pattern}"
    rf"|result\.{_NAME.pattern}(?:\.{_NAME.pattern})*"
    rf"|loop\.{_NAME.pattern}\.(?:iteration|max)|fork\.{_NAME.pattern}\.(?:answer|notes)"
    r")[ \t]*\}(?!\})"
)
_CACHE_SIZE = 4_096
"""Parsed templates in the cache."""
_MAX_CACHED_LENGTH = 8_192
"""Characters; a longer template is not cached, so that the cache's memory is bounded."""


class ValueSource(StrEnum):
    """The source of a value. The members are the prefixes in a placeholder."""

    TASK = "task"
    INPUT = "input"
    RESULT = "result"
    LOOP = "loop"
    FORK = "fork"
    CONFIG = "config"
    FLOW_INPUT = "flow.input"


LOOP_MEMBERS = ("iteration", "max")
FORK_MEMBERS = ("answer", "notes")
_MEMBERS = {ValueSource.LOOP: LOOP_MEMBERS, ValueSource.FORK: FORK_MEMBERS}


class PlaceholderFault(StrEnum):
    """Why a placeholder is invalid. The values are codes of diagnostics."""

    UNKNOWN = "template-unknown"
    UNCLOSED = "template-unclosed"
    TOO_DEEP = "template-too-deep"


class Placeholder(Struct, frozen=True):
    """A placeholder that names a value."""

    kind: ValueSource
    names: tuple[str, ...]
    """The names after the prefix."""
    text: str
    """The placeholder as written."""
    offset: int
    """Its start, in characters."""


class BrokenPlaceholder(Struct, frozen=True):
    """An invalid placeholder; it is not replaced."""

    fault: PlaceholderFault
    text: str
    offset: int


Piece = str | Placeholder | BrokenPlaceholder


class SingleBrace(Struct, frozen=True):
    """A placeholder in single braces, which older files use and which is not expanded."""

    text: str
    """The placeholder as written."""
    meant: str
    """The placeholder that would be expanded."""
    offset: int


def single_braces(text: str) -> Iterator[SingleBrace]:
    """Yield every `{…}` that would be a placeholder if written as `${{…}}`."""
    for match in _SINGLE.finditer(text):
        yield SingleBrace(match[0], f"{OPENING}{match[1]}{CLOSING}", match.start())


class MissingValue:
    """The type of MISSING."""


MISSING = MissingValue()
LookUp = Callable[[Placeholder], Any]
"""Returns the value of a placeholder, or MISSING, which is inserted as an empty string."""


class Template(Struct, frozen=True):
    """A parsed text with placeholders."""

    pieces: tuple[Piece, ...]

    @property
    def refs(self) -> list[Placeholder]:
        """The valid placeholders."""
        return [piece for piece in self.pieces if isinstance(piece, Placeholder)]

    @property
    def broken(self) -> list[BrokenPlaceholder]:
        """The invalid placeholders."""
        return [piece for piece in self.pieces if isinstance(piece, BrokenPlaceholder)]

    def expand(self, look_up: LookUp) -> str:
        """Return the text with every placeholder replaced: strings as they are, else JSON."""
        return "".join(self._texts(look_up))

    def value(self, look_up: LookUp) -> Any:
        """Return the value itself if the template is a single placeholder; else the text."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Placeholder):
            value = look_up(self.pieces[0])
            return "" if value is MISSING else value
        return self.expand(look_up)

    def _texts(self, look_up: LookUp) -> Iterator[str]:
        for piece in self.pieces:
            if isinstance(piece, Placeholder):
                yield shown(look_up(piece))
            else:
                yield piece if isinstance(piece, str) else piece.text


def shown(value: Any) -> str:
    """Return a value as it is inserted into a text."""
    if value is MISSING:
        return ""
    return value if isinstance(value, str) else compact(value)


def parse(text: str) -> Template:
    """Parse a text; invalid placeholders are among its pieces."""
    return _parsed_once(text) if len(text) <= _MAX_CACHED_LENGTH else _parsed(text)


@lru_cache(_CACHE_SIZE)
def _parsed_once(text: str) -> Template:
    return _parsed(text)


def _parsed(text: str) -> Template:
    ends = _Ends(text)
    pieces: list[Piece] = []
    plain: list[str] = []
    position = 0
    while match := _PLACE.search(text, position):
        plain.append(text[position : match.start()])
        if match[0] == LITERAL:
            plain.append(OPENING)
            position = match.end()
            continue
        placeholder = _placeholder(text, match.start(), ends)
        pieces += filter(None, ("".join(plain), placeholder))
        plain, position = [], match.start() + len(placeholder.text)
    pieces += filter(None, ("".join((*plain, text[position:])),))
    return Template(tuple(pieces))


class _Ends:
    """Finds the ends of placeholders, in ascending order; each character is searched once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line_end = 0
        self._closing = -1

    def after(self, start: int) -> int:
        """Return the first `}}` of the line after a position; -1 if there is none."""
        if start >= self._line_end:
            line_end = self._text.find("\n", start)
            self._line_end = len(self._text) if line_end < 0 else line_end
            self._closing = start
        if 0 <= self._closing <= start:
            self._closing = self._text.find(CLOSING, start, self._line_end)
        return self._closing


def _placeholder(text: str, start: int, ends: _Ends) -> Placeholder | BrokenPlaceholder:
    end = ends.after(start)
    if end < 0:
        return BrokenPlaceholder(PlaceholderFault.UNCLOSED, OPENING, start)
    written = text[start : end + len(CLOSING)]
    inside = written[len(OPENING) : -len(CLOSING)].strip(" \t")
    named = _named(inside)
    if isinstance(named, PlaceholderFault):
        return BrokenPlaceholder(named, written, start)
    kind, names = named
    return Placeholder(kind, names, written, start)


def _named(inside: str) -> tuple[ValueSource, tuple[str, ...]] | PlaceholderFault:
    """Return the source and names in a placeholder, or why it is invalid."""
    prefix = "flow.input" if inside.startswith("flow.input.") else inside.split(".", 1)[0]
    if prefix not in set(ValueSource) or prefix == inside != ValueSource.TASK:
        return PlaceholderFault.UNKNOWN
    kind = ValueSource(prefix)
    names = tuple(inside[len(prefix) + 1 :].split(".")) if inside != prefix else ()
    if any(not _NAME.fullmatch(name) for name in names):
        return PlaceholderFault.UNKNOWN
    most = {ValueSource.TASK: 0, ValueSource.LOOP: 2, ValueSource.FORK: 2}.get(kind, 1)
    if kind is not ValueSource.RESULT and len(names) > most:
        return PlaceholderFault.TOO_DEEP
    if kind in _MEMBERS and (len(names) < most or names[1] not in _MEMBERS[kind]):
        return PlaceholderFault.UNKNOWN
    return kind, names
