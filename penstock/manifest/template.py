"""`${{…}}` in the texts of flows and agents: parsed once, expanded in one pass.

Inserted text is never looked at again, so nothing that a model or a person wrote can name a value.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct

from penstock.core.json_values.canonical import compact

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
_MOST_KEPT = 4_096
"""Templates that stay parsed."""
_LONGEST_KEPT = 8_192
"""Longer ones are parsed each time: what is kept is bounded."""


class ValueSource(StrEnum):
    """Where a value comes from. The values are the prefixes of the file."""

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
    """Why a place names no value. The values are codes of diagnostics."""

    UNKNOWN = "template-unknown"
    UNCLOSED = "template-unclosed"
    TOO_DEEP = "template-too-deep"


class Placeholder(Struct, frozen=True):
    """A place that names a value."""

    kind: ValueSource
    names: tuple[str, ...]
    """What follows the prefix."""
    text: str
    """The place as it is written."""
    offset: int
    """Where it begins, in characters."""


class BrokenPlaceholder(Struct, frozen=True):
    """A place that names nothing; it is left as it is."""

    fault: PlaceholderFault
    text: str
    offset: int


Piece = str | Placeholder | BrokenPlaceholder


class SingleBrace(Struct, frozen=True):
    """A place in single braces: older files have them, and nothing expands them."""

    text: str
    """The place as it is written."""
    meant: str
    """The place that would be expanded."""
    offset: int


def single_braces(text: str) -> Iterator[SingleBrace]:
    """Yield every `{…}` that would name a value in double braces behind a dollar sign."""
    for found in _SINGLE.finditer(text):
        yield SingleBrace(found[0], f"{OPENING}{found[1]}{CLOSING}", found.start())


class MissingValue:
    """A value that is not there."""


MISSING = MissingValue()
LookUp = Callable[[Placeholder], Any]
"""The value of a place, or MISSING, which is inserted as nothing."""


class Template(Struct, frozen=True):
    """A text with places in it."""

    pieces: tuple[Piece, ...]

    @property
    def refs(self) -> list[Placeholder]:
        """The places that name a value."""
        return [piece for piece in self.pieces if isinstance(piece, Placeholder)]

    @property
    def broken(self) -> list[BrokenPlaceholder]:
        """The places that name nothing."""
        return [piece for piece in self.pieces if isinstance(piece, BrokenPlaceholder)]

    def expand(self, look_up: LookUp) -> str:
        """Return the text with a value in every place: text as it is, others as compact JSON."""
        return "".join(self._texts(look_up))

    def value(self, look_up: LookUp) -> Any:
        """Return what the template comes to: typed, when it is nothing but one place."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Placeholder):
            found = look_up(self.pieces[0])
            return "" if found is MISSING else found
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
    """Return a text with its places found; places that name nothing are among the pieces."""
    return _parsed_once(text) if len(text) <= _LONGEST_KEPT else _parsed(text)


@lru_cache(_MOST_KEPT)
def _parsed_once(text: str) -> Template:
    return _parsed(text)


def _parsed(text: str) -> Template:
    ends = _Ends(text)
    pieces: list[Piece] = []
    plain: list[str] = []
    at = 0
    while found := _PLACE.search(text, at):
        plain.append(text[at : found.start()])
        if found[0] == LITERAL:
            plain.append(OPENING)
            at = found.end()
            continue
        place = _place(text, found.start(), ends)
        pieces += filter(None, ("".join(plain), place))
        plain, at = [], found.start() + len(place.text)
    pieces += filter(None, ("".join((*plain, text[at:])),))
    return Template(tuple(pieces))


class _Ends:
    """Where places of a text end, asked from its beginning on: each character is read once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line_end = 0
        self._closing = -1

    def after(self, start: int) -> int:
        """Return where the first closing of this line stands behind a place; -1 if it has none."""
        if start >= self._line_end:
            line_end = self._text.find("\n", start)
            self._line_end = len(self._text) if line_end < 0 else line_end
            self._closing = start
        if 0 <= self._closing <= start:
            self._closing = self._text.find(CLOSING, start, self._line_end)
        return self._closing


def _place(text: str, start: int, ends: _Ends) -> Placeholder | BrokenPlaceholder:
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
    """Return what a place names, or why it names nothing."""
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
