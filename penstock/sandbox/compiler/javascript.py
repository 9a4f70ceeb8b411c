"""The adapters for two blobs that read JavaScript without running it: es-module-lexer and QuickJS.

`EsLexer` finds the imports and exports of a module. The blob keeps its findings in its memory; they
are read from there one number at a time. It counts offsets in UTF-16 units; this file converts them
to characters. The number of findings is bounded, because each costs a dozen calls.

`Grammar` compiles a module with QuickJS to find all syntax errors: swc and the lexer accept more
than QuickJS does, such as a name that is declared twice. The compiled module is discarded. The
instance has no host functions, and each import resolves to an empty module, because imports are
checked elsewhere (module_graph.py). Proof: tests/sandbox/compiler/test_javascript.py.
"""

import re
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from penstock.core.clock import Clock
from penstock.sandbox.compiler.blob_reader import EXHAUSTED, MEMORY_BYTES, Blob, Reader
from penstock.sandbox.compiler.parsers import Export, Findings, Statement, unescaped, unquoted
from penstock.sandbox.wasm.binding import Engine, Import, Instance

LEXER = Blob(
    name="lexer.wasm", kept_bytes=32 << 20, exhausted="it needs too much memory to be read"
)
_MAX_STATEMENTS = 2_000
"""One more than the most statements, and the most exports, of one module."""
_NO_INDEX = 0xFFFFFFFF
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
QUICKJS = "quickjs.wasm"
_STACK_BYTES = 200 << 10
_KEPT_BYTES = 16 << 20
"""Compiled code stays in memory: an instance with more than this is replaced."""
_MODULE = 1
_PLACE = re.compile(r":(\d+):(\d+)\n")
_OWN_LIMITS = ("out of memory", "stack overflow")
_NOT_PERMITTED = 63


class EsLexer:
    """The blob and its current instance. One thread may use it at a time."""

    def __init__(self, clock: Clock, cache: Path | None) -> None:
        self._reader = Reader(LEXER, clock, cache, begin=_Lexer, failed=Findings)

    def scan(self, source: str, seconds: float) -> Findings:
        """Read one module within so many seconds."""
        return self._reader.read(source, seconds)

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        self._reader.close()


class Grammar:
    """QuickJS as a syntax checker. One thread may use it at a time."""

    def __init__(self, clock: Clock, cache: Path | None) -> None:
        blob = Blob(name=QUICKJS, imports=_IMPORTS, kept_bytes=_KEPT_BYTES, exhausted=EXHAUSTED)
        self._reader = Reader[Findings | None](blob, clock, cache, begin=_QuickJs, failed=Findings)

    def check(self, source: str, seconds: float) -> Findings | None:
        """Return the syntax error of a module, or None."""
        return self._reader.read(source, seconds)

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        self._reader.close()


class _Lexer:
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
        statements = tuple(islice(self._statements(text), _MAX_STATEMENTS))
        exports = tuple(islice(self._exports(text), _MAX_STATEMENTS))
        if _MAX_STATEMENTS in {len(statements), len(exports)}:
            return Findings(problem=f"it has more than {_MAX_STATEMENTS - 1} imports or exports")
        return Findings(statements=statements, exports=exports)

    def _statements(self, text: "_Text") -> Iterator[Statement]:
        ask = self.instance.quick
        while ask("ri"):
            kind = ask("it") & 15
            at, end = text.at(ask("ss")), text.at(ask("se"))
            if kind == _META:
                yield Statement(kind="meta", at=at, end=end)
            elif ask("id") != _NO_INDEX or kind in _DYNAMIC:
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
        if ask("ai") == _NO_INDEX:
            return
        ask("rsa")
        while ask("ra"):
            key, value = (
                slice(text.at(ask(first)), text.at(ask(last)))
                for first, last in (("aks", "ake"), ("avs", "ave"))
            )
            yield unquoted(text.source[key]), unquoted(text.source[value]), key.start

    def _exports(self, text: "_Text") -> Iterator[Export]:
        while export := self.instance.quick("re"):
            first, last, own_first, own_last, _, statement, kind, more = struct.unpack(
                "<IIIIIIBB", self.instance.read(export, 26)
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
            wide = enumerate(_WIDE.finditer(source))
            self._wide = [character.start() + before for before, character in wide]

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


class _QuickJs:
    """One instance of QuickJS."""

    def __init__(self, engine: Engine) -> None:
        self.instance = Instance(engine, self, MEMORY_BYTES)
        self.instance.call("_initialize")
        if self.instance.call("qjs_init"):
            raise RuntimeError("QuickJS did not start")
        self._quick = self.instance.quick
        self._quick("qjs_set_max_stack_size", _STACK_BYTES)
        self._quick("qjs_set_module_loader", 1)

    def read(self, source: str) -> Findings | None:
        content = source.encode()
        code, name, size = self.keep(content), self.keep(b"module"), self.keep(bytes(4))
        bytecode = self.instance.call("qjs_compile", code, len(content), name, _MODULE, 0, size)
        problem = None if bytecode else self._problem(source)
        for address in (code, name, size, *([bytecode] if bytecode else [])):
            self._quick("wasm_free", address)
        return problem

    def keep(self, content: bytes) -> int:
        """Copy bytes into memory, followed by a zero byte; return their address."""
        address = self._quick("wasm_malloc", len(content) + 1)
        if not address:
            raise RuntimeError("out of memory")
        self.instance.write(address, content + b"\0")
        return address

    def _problem(self, source: str) -> Findings:
        error = self._quick("qjs_get_exception")
        message, stack = self._member(error, b"message"), self._member(error, b"stack")
        self._quick("qjs_free_value", error)
        # A limit of this instance is not a syntax error: `Reader` reports it, drops the instance.
        if any(limit in message for limit in _OWN_LIMITS):
            raise RuntimeError(message)
        position = _PLACE.search(stack)
        line, column = (int(position[1]), int(position[2])) if position else (1, 1)
        return Findings(problem=message, problem_at=_offset(source, line, column))

    def _member(self, value: int, name: bytes) -> str:
        key, size = self.keep(name), self.keep(bytes(4))
        member = self._quick("qjs_get_prop_string", value, key)
        address = self._quick("qjs_get_string_len", member, size)
        text = self.instance.read(address, self.instance.read_word(size)) if address else b""
        if address:
            self._quick("qjs_free_cstring", address)
        self._quick("qjs_free_value", member)
        for allocated in (key, size):
            self._quick("wasm_free", allocated)
        return text.decode("utf-8", "replace")


def _offset(source: str, line: int, column: int) -> int:
    """Return the offset in characters. QuickJS counts columns in bytes of UTF-8."""
    begin = 0
    for _ in range(line - 1):
        begin = source.find("\n", begin) + 1
    end = source.find("\n", begin)
    text = source[begin : end if end >= 0 else len(source)].encode()
    return begin + len(text[: column - 1].decode("utf-8", "ignore"))


def _name(guest: _QuickJs, arguments: Sequence[int]) -> int:
    """Resolve every specifier to itself: imports are checked elsewhere."""
    return guest.keep(guest.instance.read_text(arguments[1]).encode())


def _load(guest: _QuickJs, arguments: Sequence[int]) -> int:
    """Return an empty module for every import."""
    guest.instance.write(arguments[1], bytes(4))
    return guest.keep(b"")


def _nothing(_guest: _QuickJs, _arguments: Sequence[int]) -> int:
    return 0


def _refused(_guest: _QuickJs, _arguments: Sequence[int]) -> int:
    return _NOT_PERMITTED


def _import(name: str, parameters: str, call: Callable[[Any, Sequence[int]], int]) -> Import:
    module = "env" if name.startswith("host_") else "wasi_snapshot_preview1"
    answers = name != "host_promise_rejection"
    return Import(module=module, name=name, parameters=parameters, call=call, answers=answers)


_IMPORTS = (
    _import("host_get_timezone_offset", "ii", _nothing),
    _import("host_interrupt", "", _nothing),
    _import("host_promise_rejection", "iii", _nothing),
    _import("host_module_normalize", "ii", _name),
    _import("host_module_load", "ii", _load),
    _import("host_call", "iiiii", _nothing),
    _import("clock_time_get", "iIi", _nothing),
    _import("random_get", "ii", _nothing),
    _import("fd_close", "i", _refused),
    _import("fd_fdstat_get", "ii", _refused),
    _import("fd_seek", "iIii", _refused),
    _import("fd_write", "iiii", _refused),
)
