"""Types taken out of TypeScript, in place, so that every position stays what the author wrote."""

import re
import threading
import unicodedata
from pathlib import Path

from penstock.core.clock import Clock
from penstock.sandbox.swc import IMPORTS, Stripped, Swc
from penstock.sandbox.wasm import Engine

SECONDS = 10.0
_KEPT_BYTES = 48 << 20
"""Memory never shrinks: an instance that one large file has blown up is not kept."""
_LINES = re.compile(r"\r\n|\n|\r")
_TAB = 4
_CONSTRUCTS = {
    "enum": "enum",
    "namespace": "namespace",
    "parameter property": "a parameter property",
    "import equals": "import ... =",
    "export assignment": "export =",
    "angle-bracket": "a <T>x cast",
}
"""What cannot be erased: how the blob says it, and how it is said to the author."""


class TypeScript:
    """Strips types. Safe for threads, which take turns; the blob is loaded when it is needed."""

    def __init__(
        self, clock: Clock, cache: Path | None = None, *, seconds: float = SECONDS
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._seconds = seconds
        self._turn = threading.Lock()
        self._engine: Engine | None = None
        self._swc: Swc | None = None

    def strip_types(self, source: str) -> Stripped:
        """Replace every type by blanks; hostile source costs its seconds and its memory, no more.

        The source holds no lone surrogate: it would not be UTF-8. The problem of what cannot be
        erased is the name of the construct.
        """
        with self._turn:
            return self._strip(source, self._clock.monotonic() + self._seconds)

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        with self._turn:
            self._drop()
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def _strip(self, source: str, deadline: float) -> Stripped:
        try:
            return _told(source, self._opened().strip(source, deadline))
        except TimeoutError:
            self._drop()
            said = f"to read it takes longer than {self._seconds:g} s"
            return Stripped(problem=said, is_late=True)
        except RuntimeError:
            self._drop()
            return Stripped(problem="it is nested too deeply, or needs too much memory to be read")

    def _opened(self) -> Swc:
        if self._swc is not None and self._swc.size > _KEPT_BYTES:
            self._drop()
        if self._engine is None:
            self._engine = Engine("swc.wasm", IMPORTS, self._clock, self._cache)
        if self._swc is None:
            self._swc = Swc(self._engine, self._clock)
        return self._swc

    def _drop(self) -> None:
        swc, self._swc = self._swc, None
        if swc is not None:
            swc.close()


def _told(source: str, found: Stripped) -> Stripped:
    """Say what was found in the words of the author: a construct, a place in characters."""
    if found.problem is None:
        return found
    line = (_LINES.split(source)[found.line - 1 : found.line] or [""])[0]
    column = _column(line, found.column)
    is_decorator = line[column - 1 : column] == "@"
    is_unsupported = found.is_unsupported or is_decorator
    said = _construct(found.problem) if found.is_unsupported else found.problem
    return Stripped(
        problem="a decorator" if is_decorator else said,
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
