"""The parsers of sources: one strips types from TypeScript, one finds imports and exports.

Both are thread-safe and run one source at a time. The blobs behind them are loaded when first
needed, because they take memory and up to two seconds (swc.py, javascript.py). A source never runs.
Types are replaced by spaces in place, so that every position is that of the author's file.
"""

import re
import threading
import unicodedata
from pathlib import Path
from typing import Any

from msgspec import Struct

from penstock.core.clock import Clock
from penstock.core.late import late
from penstock.sandbox.blobs import check_engine

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
SECONDS = 10.0
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL
)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_LINE_ENDS = {"\n", "\r", "\r\n", "\u2028", "\u2029"}
_LAST = 0x10FFFF


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
                make = late("penstock.sandbox.compiler.swc:Swc")
                self._blob = make(self._clock, self._cache)
            return _for_author(source, self._blob.strip(source, self._seconds))

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        with self._turn:
            if self._blob is not None:
                self._blob.close()
            self._blob = None


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
                make = late("penstock.sandbox.compiler.javascript:EsLexer")
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
            make = late("penstock.sandbox.compiler.javascript:Grammar")
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


def _unescape(escape: re.Match[str]) -> str:
    if digits := escape[1] or escape[2] or escape[3]:
        return chr(min(int(digits, 16), _LAST))
    return "" if escape[4] in _LINE_ENDS else _LETTERS.get(escape[4], escape[4])
