"""Types taken out of TypeScript, in place, so that every position stays what the author wrote."""

import re
import threading
import unicodedata
from pathlib import Path
from typing import Any

from msgspec import Struct

from penstock.core.clock import Clock
from penstock.core.late import late
from penstock.sandbox.blobs import check_engine

SECONDS = 10.0
_LINES = re.compile(r"\r\n|\n|\r")
_TAB = 4
DECORATOR = "a decorator"
_CONSTRUCTS = {
    "enum": "enum",
    "namespace": "namespace",
    "parameter property": "a parameter property",
    "import equals": "import ... =",
    "export assignment": "export =",
    "angle-bracket": "a <T>x cast",
}
"""What cannot be erased: how the blob says it, and how it is said to the author."""


class StripResult(Struct, frozen=True, kw_only=True):
    """What came of one source: JavaScript, or why not."""

    source: str = ""
    problem: str | None = None
    is_unsupported: bool = False
    """It is TypeScript, but of the kind that cannot be erased."""
    is_late: bool = False
    """It took too long; on another day it may not."""
    line: int = 1
    column: int = 1


class TypeScript:
    """Strips types. Safe for threads, which take turns; the blob is loaded when it is needed."""

    def __init__(
        self, clock: Clock, cache: Path | None = None, *, seconds: float = SECONDS
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._seconds = seconds
        self._turn = threading.Lock()
        self._blob: Any = None

    def strip_types(self, source: str) -> StripResult:
        """Replace every type by blanks; hostile source costs its seconds and its memory, no more.

        The source holds no lone surrogate: it would not be UTF-8. The problem of what cannot be
        erased is the name of the construct.
        """
        with self._turn:
            if self._blob is None:
                check_engine()
                make = late("penstock.sandbox.reading.swc:Swc")
                self._blob = make(self._clock, self._cache)
            return _told(source, self._blob.strip(source, self._seconds))

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        with self._turn:
            if self._blob is not None:
                self._blob.close()
            self._blob = None


def _told(source: str, found: StripResult) -> StripResult:
    """Say what was found in the words of the author: a construct, a place in characters."""
    if found.problem is None:
        return found
    line = (_LINES.split(source)[found.line - 1 : found.line] or [""])[0]
    column = _column(line, found.column)
    is_decorator = line[column - 1 : column] == "@"
    is_unsupported = found.is_unsupported or is_decorator
    said = _construct(found.problem) if found.is_unsupported else found.problem
    return StripResult(
        problem=DECORATOR if is_decorator else said,
        is_unsupported=is_unsupported,
        line=found.line,
        column=column,
    )


def _construct(problem: str) -> str:
    for words, name in _CONSTRUCTS.items():
        if words in problem:
            return name
    return problem


def _column(line: str, shown: int) -> int:
    """Return the column in characters of one that counts how wide a terminal shows each."""
    if line.isascii() and line.isprintable():
        return shown
    width, column = 0, 0
    for character in line:
        if width >= shown - 1:
            break
        column += 1
        width += _width(character)
    return column + 1


def _width(character: str) -> int:
    if character == "\t":
        return _TAB
    if unicodedata.category(character) in {"Cc", "Cf", "Me", "Mn"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"A", "F", "W"} else 1
