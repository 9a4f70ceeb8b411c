"""The adapter for the blob es-module-lexer, which finds the imports and exports of a module.

The blob keeps its findings in its memory; they are read from there one number at a time. It counts
offsets in UTF-16 units; this file converts them to characters. The number of findings is bounded,
because each costs a dozen calls.
"""

import re
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from penstock.core.clock import Clock
from penstock.sandbox.reading.lexer import Export, Findings, Statement, unescaped, unquoted
from penstock.sandbox.reading.reader import MEMORY_BYTES, Blob, Reader
from penstock.sandbox.wasm.binding import Engine, Instance

BLOB = Blob(name="lexer.wasm", kept_bytes=32 << 20, overcome="it needs too much memory to be read")
_MOST = 2_000
"""One more than the most statements, and the most exports, of one module."""
_NOWHERE = 0xFFFFFFFF
_DYNAMIC, _META, _STAR = frozenset({2, 5, 7}), 3, 8
_PHASES = {4: "source", 5: "source", 6: "defer", 7: "defer"}
_STAR_EXPORT, _DIRECT_EXPORT = 3, 1
_TOKEN = re.compile(
    r"//[^\n\r\u2028\u2029]*|/\*.*?\*/|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<word>(?:[\w$]|\\u\{[0-9a-fA-F]+\}|\\u[0-9a-fA-F]{4})+)|(?P<sign>[{},*])",
    re.DOTALL,
)
_WIDE = re.compile("[\U00010000-\U0010ffff]")
"""Characters that take two UTF-16 units."""


class EsLexer:
    """The blob and its current instance. One thread may use it at a time."""

    def __init__(self, clock: Clock, cache: Path | None) -> None:
        self._reader = Reader(BLOB, clock, cache, begin=_Guest, unread=Findings)

    def scan(self, source: str, seconds: float) -> Findings:
        """Read one module within so many seconds."""
        return self._reader.read(source, seconds)

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        self._reader.close()


class _Guest:
    """One instance of the blob."""

    def __init__(self, engine: Engine) -> None:
        self.instance = Instance(engine, self, MEMORY_BYTES)
        self.instance.call("_initialize")
        self._begin = self.instance.call("sa", 0)

    def read(self, source: str) -> Findings:
        units = source.encode("utf-16-le")
        count, instance = len(units) // 2, self.instance
        # The source, and room for findings: the shortest statement has eight characters.
        instance.grow_to(self._begin + len(units) + 16 * count + (1 << 16))
        instance.call("sa", count)
        instance.write(self._begin, units)
        text = _Text(source, units)
        if not instance.call("parse"):
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
                    specifier=unescaped(text.source[first:last]),
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
    """A source; converts offsets in UTF-16 units to offsets in characters."""

    def __init__(self, source: str, units: bytes) -> None:
        self.source = source
        self._wide: list[int] = []
        if len(units) > 2 * len(source):
            found = enumerate(_WIDE.finditer(source))
            self._wide = [character.start() + before for before, character in found]

    def at(self, unit: int) -> int:
        return unit - bisect_left(self._wide, unit)


def _names(source: str, at: int, end: int) -> Iterator[tuple[str, int]]:
    """Yield the names between `import` or `export` and the specifier, with their offsets.

    `import a, {b as c} from` imports `default` and `b`; `export {b as c} from` imports `b`.
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
