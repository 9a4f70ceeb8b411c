"""What a module imports and exports, with the place of each; the module itself is not run.

A wasm blob reads the module and keeps its findings in its memory, from where they are fetched one
number at a time. It counts in UTF-16 units; what leaves this file counts in characters.
"""

import re
import struct
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from penstock.core.clock import Clock
from penstock.sandbox.wasm import Engine, Instance

SECONDS = 10.0
MEMORY_BYTES = 512 << 20
_KEPT_BYTES = 32 << 20
_MOST = 2_000
"""Statements and exports of one module: each costs a dozen calls, so they are not endless."""
_NOWHERE = 0xFFFFFFFF
_DYNAMIC, _META, _STAR = frozenset({2, 5, 7}), 3, 8
_PHASES = {4: "source", 5: "source", 6: "defer", 7: "defer"}
_STAR_EXPORT, _DIRECT_EXPORT = 3, 1
_TOKEN = re.compile(
    r"//[^\n\r\u2028\u2029]*|/\*.*?\*/|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<word>(?:[\w$]|\\u\{[0-9a-fA-F]+\}|\\u[0-9a-fA-F]{4})+)|(?P<sign>[{},*])",
    re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL
)
_WIDE = re.compile("[\U00010000-\U0010ffff]")
"""Characters that are two units."""
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_LINE_ENDS = {"\n", "\r", "\r\n", "\u2028", "\u2029"}
_LAST = 0x10FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """One name that a module exports; `name` is None for `export * from`."""

    name: str | None
    statement: int | None = None
    """Which of the statements it is taken from; None is the module's own."""
    imported: str | None = None
    """Its name in the other module; None is all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a module imports and exports, or why it cannot be told."""

    statements: tuple[Statement, ...] = ()
    exports: tuple[Export, ...] = ()
    problem: str | None = None
    problem_at: int = 0
    is_late: bool = False
    """It took too long; on another day it may not."""


class Lexer:
    """Finds imports and exports. Safe for threads, which take turns; the blob is loaded late."""

    def __init__(
        self, clock: Clock, cache: Path | None = None, *, seconds: float = SECONDS
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._seconds = seconds
        self._turn = threading.Lock()
        self._engine: Engine | None = None
        self._guest: _Guest | None = None

    def scan(self, source: str) -> Findings:
        """Read one module of JavaScript; it holds no lone surrogate."""
        with self._turn:
            try:
                return self._opened().scan(source, self._clock.monotonic() + self._seconds)
            except TimeoutError:
                self._drop()
                said = f"to read it takes longer than {self._seconds:g} s"
                return Findings(problem=said, is_late=True)
            except RuntimeError:
                self._drop()
                return Findings(problem="it needs too much memory to be read")

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        with self._turn:
            self._drop()
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def _opened(self) -> "_Guest":
        if self._guest is not None and self._guest.instance.size > _KEPT_BYTES:
            self._drop()
        if self._engine is None:
            self._engine = Engine("lexer.wasm", (), self._clock, self._cache)
        if self._guest is None:
            self._guest = _Guest(self._engine, self._clock)
        return self._guest

    def _drop(self) -> None:
        guest, self._guest = self._guest, None
        if guest is not None:
            guest.instance.close()


class _Guest:
    """One instance of the blob."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self.instance = Instance(engine, self, MEMORY_BYTES)
        self.instance.call("_initialize")
        self._begin = self.instance.call("sa", 0)

    def scan(self, source: str, deadline: float) -> Findings:
        units = source.encode("utf-16-le")
        count, instance = len(units) // 2, self.instance
        instance.alarm = lambda: "late" if self._clock.monotonic() > deadline else None
        # The source, and room for findings: the shortest statement has eight characters.
        instance.grow_to(self._begin + len(units) + 16 * count + (1 << 16))
        instance.call("sa", count)
        instance.write(self._begin, units)
        self._engine.ticker.begin(self)
        try:
            is_read = instance.call("parse")
        finally:
            self._engine.ticker.end(self)
        text = _Text(source, units)
        if not is_read:
            return Findings(problem="not valid JavaScript", problem_at=text.at(instance.quick("e")))
        statements = tuple(islice(self._statements(text), _MOST))
        exports = tuple(islice(self._exports(text), _MOST))
        if _MOST in {len(statements), len(exports)}:
            return Findings(problem=f"it has more than {_MOST - 1} imports or exports")
        return Findings(statements=statements, exports=exports)

    def _statements(self, text: "_Text") -> Iterator[Statement]:
        ask = self.instance.quick
        while ask("ri"):
            kind = ask("it") & 15
            at, end = text.at(ask("ss")), text.at(ask("se"))
            if kind == _META:
                yield Statement(kind="meta", at=at, end=end)
            elif ask("id") != _NOWHERE or kind in _DYNAMIC:
                yield Statement(kind="dynamic", at=at, end=end)
            else:
                first, last = text.at(ask("is")), text.at(ask("ie"))
                yield Statement(
                    kind="import",
                    at=at,
                    end=max(end, last),
                    specifier=_unescaped(text.source[first:last]),
                    specifier_at=first - 1,
                    phase=_PHASES.get(kind),
                    attributes=tuple(self._attributes(text, ask)),
                    names=tuple(_names(text.source, at, first)),
                )

    def _attributes(
        self, text: "_Text", ask: Callable[[str], int]
    ) -> Iterator[tuple[str, str, int]]:
        if ask("ai") == _NOWHERE:
            return
        ask("rsa")
        while ask("ra"):
            key, value = (
                slice(text.at(ask(first)), text.at(ask(last)))
                for first, last in (("aks", "ake"), ("avs", "ave"))
            )
            yield unquoted(text.source[key]), unquoted(text.source[value]), key.start

    def _exports(self, text: "_Text") -> Iterator[Export]:
        while found := self.instance.quick("re"):
            first, last, own_first, own_last, _, statement, kind, more = struct.unpack(
                "<IIIIIIBB", self.instance.read(found, 26)
            )

            def named(first: int, last: int) -> str:
                at, end = ((each - self._begin) >> 1 for each in (first, last))
                return unquoted(text.source[text.at(at) : text.at(end)])

            if kind == _STAR_EXPORT:
                yield Export(name=None, statement=statement)
            elif kind == _DIRECT_EXPORT:
                yield Export(name=named(first, last))
            else:
                way = more & 3
                imported = named(own_first, own_last) if way == 0 else "default"
                yield Export(
                    name=named(first, last),
                    statement=statement,
                    imported=imported if way <= 1 else None,
                )


class _Text:
    """A source, and how places in UTF-16 units become places in characters."""

    def __init__(self, source: str, units: bytes) -> None:
        self.source = source
        self._wide: list[int] = []
        if len(units) > 2 * len(source):
            found = enumerate(_WIDE.finditer(source))
            self._wide = [character.start() + before for before, character in found]

    def at(self, unit: int) -> int:
        return unit - bisect_left(self._wide, unit)


def _names(source: str, at: int, end: int) -> Iterator[tuple[str, int]]:
    """Read what stands between `import` or `export` and the specifier.

    `import a, {b as c} from` wants `default` and `b`; `export {b as c} from` wants `b`.
    """
    tokens = [token for token in _TOKEN.finditer(source, at, end) if token.lastgroup]
    words = [(unquoted(token[0]), token.start(), token.lastgroup) for token in tokens[1:]]
    inside = False
    for number, (word, place, kind) in enumerate(words):
        before = words[number - 1][0] if number else ""
        after = words[number + 1][0] if number + 1 < len(words) else ""
        if kind == "sign":
            inside = {"{": True, "}": False}.get(word, inside)
        elif inside and before in {"{", ","} and words[number - 1][2] == "sign":
            yield word, place
        elif not inside and number == 0 and after in {",", "from"} and tokens[0][0] == "import":
            yield "default", place


def unquoted(text: str) -> str:
    """Return what a string literal or an identifier stands for."""
    return _unescaped(text[1:-1] if text[:1] in {'"', "'"} else text)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    pairs = _ESCAPE.sub(_unescape, text)
    return pairs.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescape(found: re.Match[str]) -> str:
    if digits := found[1] or found[2] or found[3]:
        return chr(min(int(digits, 16), _LAST))
    return "" if found[4] in _LINE_ENDS else _LETTERS.get(found[4], found[4])
