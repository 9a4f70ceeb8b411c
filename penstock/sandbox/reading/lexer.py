"""What a module imports and exports, with the place of each; the module itself is not run."""

import re
import threading
from pathlib import Path
from typing import Any

from msgspec import Struct

from penstock.core.clock import Clock
from penstock.core.late import late
from penstock.sandbox.blobs import check_engine

SECONDS = 10.0
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL
)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_LINE_ENDS = {"\n", "\r", "\r\n", "\u2028", "\u2029"}
_LAST = 0x10FFFF


class Statement(Struct, frozen=True, kw_only=True):
    """One `import`, `export ... from`, `import()` or `import.meta`."""

    kind: str
    """`import`, `dynamic` or `meta`."""
    at: int
    """Where it begins, in characters."""
    end: int
    specifier: str = ""
    specifier_at: int = 0
    """Where its quote stands."""
    phase: str | None = None
    """`defer` or `source`, which are proposals."""
    attributes: tuple[tuple[str, str, int], ...] = ()
    """Key, value and place of each."""
    names: tuple[tuple[str, int], ...] = ()
    """What is wanted of the other module, by the name it has there, and where that stands."""


class Export(Struct, frozen=True, kw_only=True):
    """One name that a module exports; `name` is None for `export * from`."""

    name: str | None
    statement: int | None = None
    """Which of the statements it is taken from; None is the module's own."""
    imported: str | None = None
    """Its name in the other module; None is all of it."""


class Findings(Struct, frozen=True, kw_only=True):
    """What a module imports and exports, or why it cannot be told."""

    statements: tuple[Statement, ...] = ()
    exports: tuple[Export, ...] = ()
    problem: str | None = None
    problem_at: int = 0
    is_late: bool = False
    """It took too long; on another day it may not."""


class Lexer:
    """Finds imports and exports, and what the engine of scripts would not take.

    Safe for threads, which take turns; the blobs are loaded when they are needed.
    """

    def __init__(
        self, clock: Clock, cache: Path | None = None, *, seconds: float = SECONDS
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._seconds = seconds
        self._turn = threading.Lock()
        self._blob: Any = None
        self._grammar: Any = None

    def scan(self, source: str) -> Findings:
        """Read one module of JavaScript; it holds no lone surrogate."""
        with self._turn:
            if self._blob is None:
                check_engine()
                make = late("penstock.sandbox.reading.es_lexer:EsLexer")
                self._blob = make(self._clock, self._cache)
            found: Findings = self._blob.scan(source, self._seconds)
            if found.problem is not None or any(each.phase for each in found.statements):
                return found
            return self._refused(source) or found

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        with self._turn:
            for each in (self._blob, self._grammar):
                if each is not None:
                    each.close()
            self._blob = self._grammar = None

    def _refused(self, source: str) -> Findings | None:
        """Ask the engine of scripts whether it would take the module."""
        if self._grammar is None:
            make = late("penstock.sandbox.reading.grammar:Grammar")
            self._grammar = make(self._clock, self._cache)
        found: Findings | None = self._grammar.check(source, self._seconds)
        return found


def unquoted(text: str) -> str:
    """Return what a string literal or an identifier stands for."""
    return unescaped(text[1:-1] if text[:1] in {'"', "'"} else text)


def unescaped(text: str) -> str:
    """Return what the inside of a string literal stands for."""
    if "\\" not in text:
        return text
    pairs = _ESCAPE.sub(_unescape, text)
    return pairs.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescape(found: re.Match[str]) -> str:
    if digits := found[1] or found[2] or found[3]:
        return chr(min(int(digits, 16), _LAST))
    return "" if found[4] in _LINE_ENDS else _LETTERS.get(found[4], found[4])
