"""Strips types from TypeScript in place, so that every position stays that of the author's file."""

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
"""Constructs that cannot be erased: words of the blob's message, and the name for authors."""


class StripResult(Struct, frozen=True, kw_only=True):
    """The JavaScript of a source, or the problem that prevents it."""

    source: str = ""
    problem: str | None = None
    is_unsupported: bool = False
    """The problem is a construct of TypeScript that cannot be erased."""
    is_late: bool = False
    """Reading timed out; it may succeed another time."""
    line: int = 1
    column: int = 1


class TypeScript:
    """Strips types. Thread-safe, one thread at a time. The blob is loaded when first needed."""

    def __init__(
        self, clock: Clock, cache: Path | None = None, *, seconds: float = SECONDS
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._seconds = seconds
        self._turn = threading.Lock()
        self._blob: Any = None

    def strip_types(self, source: str) -> StripResult:
        """Replace every type by spaces, within bounds of time and memory.

        The source must not contain lone surrogates. If a construct cannot be erased, `problem` is
        its name.
        """
        with self._turn:
            if self._blob is None:
                check_engine()
                make = late("penstock.sandbox.reading.swc:Swc")
                self._blob = make(self._clock, self._cache)
            return _for_author(source, self._blob.strip(source, self._seconds))

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        with self._turn:
            if self._blob is not None:
                self._blob.close()
            self._blob = None


def _for_author(source: str, result: StripResult) -> StripResult:
    """Return the result with the construct's name and a column in characters."""
    if result.problem is None:
        return result
    line = (_LINES.split(source)[result.line - 1 : result.line] or [""])[0]
    column = _column(line, result.column)
    # swc reports a decorator as a syntax error.
    is_decorator = line[column - 1 : column] == "@"
    is_unsupported = result.is_unsupported or is_decorator
    problem = _construct(result.problem) if result.is_unsupported else result.problem
    return StripResult(
        problem=DECORATOR if is_decorator else problem,
        is_unsupported=is_unsupported,
        line=result.line,
        column=column,
    )


def _construct(problem: str) -> str:
    for words, name in _CONSTRUCTS.items():
        if words in problem:
            return name
    return problem


def _column(line: str, shown: int) -> int:
    """Convert a column of swc, which counts terminal cells, to one that counts characters."""
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
