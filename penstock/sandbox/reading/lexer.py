"""Finds the imports and exports of a module, and syntax errors. The module does not run."""

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
    """The offset of its start, in characters."""
    end: int
    specifier: str = ""
    specifier_at: int = 0
    """The offset of the opening quote."""
    phase: str | None = None
    """`defer` or `source`, which are proposals for JavaScript."""
    attributes: tuple[tuple[str, str, int], ...] = ()
    """Key, value and offset of each."""
    names: tuple[tuple[str, int], ...] = ()
    """The imported names, as the other module exports them, each with its offset."""


class Export(Struct, frozen=True, kw_only=True):
    """One exported name; `name` is None for `export * from`."""

    name: str | None
    statement: int | None = None
    """The index of the statement that it is re-exported from; None for a name of the module."""
    imported: str | None = None
    """The name in the other module; None for the whole module."""


class Findings(Struct, frozen=True, kw_only=True):
    """The imports and exports of a module, or the problem that prevents reading them."""

    statements: tuple[Statement, ...] = ()
    exports: tuple[Export, ...] = ()
    problem: str | None = None
    problem_at: int = 0
    is_late: bool = False
    """Reading timed out; it may succeed another time."""


class Lexer:
    """Finds imports, exports, and syntax that QuickJS refuses.

    Thread-safe, one thread at a time. The blobs are loaded when first needed.
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
        """Read one module of JavaScript. It must not contain lone surrogates."""
        with self._turn:
            if self._blob is None:
                check_engine()
                make = late("penstock.sandbox.reading.es_lexer:EsLexer")
                self._blob = make(self._clock, self._cache)
            findings: Findings = self._blob.scan(source, self._seconds)
            # QuickJS refuses a phase as a plain syntax error; the scanner has a better message.
            if findings.problem is not None or any(each.phase for each in findings.statements):
                return findings
            return self._refused(source) or findings

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        with self._turn:
            for blob in (self._blob, self._grammar):
                if blob is not None:
                    blob.close()
            self._blob = self._grammar = None

    def _refused(self, source: str) -> Findings | None:
        """Compile the module with QuickJS; return the syntax error, or None."""
        if self._grammar is None:
            make = late("penstock.sandbox.reading.grammar:Grammar")
            self._grammar = make(self._clock, self._cache)
        refused: Findings | None = self._grammar.check(source, self._seconds)
        return refused


def unquoted(text: str) -> str:
    """Return the value of a string literal or an identifier."""
    return unescaped(text[1:-1] if text[:1] in {'"', "'"} else text)


def unescaped(text: str) -> str:
    """Return the value of the inside of a string literal."""
    if "\\" not in text:
        return text
    pairs = _ESCAPE.sub(_unescape, text)  # a surrogate pair may be two escapes; join it
    return pairs.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescape(found: re.Match[str]) -> str:
    if digits := found[1] or found[2] or found[3]:
        return chr(min(int(digits, 16), _LAST))
    return "" if found[4] in _LINE_ENDS else _LETTERS.get(found[4], found[4])
