"""Compiles a module with QuickJS, without running it, to find all syntax errors.

swc and the lexer accept more than QuickJS does, such as a name that is declared twice. The compiled
module is discarded. The instance has no host functions, and each import resolves to an empty
module, because imports are checked elsewhere. Proof: tests/sandbox/reading/test_grammar.py.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.core.clock import Clock
from penstock.sandbox.reading.lexer import Findings
from penstock.sandbox.reading.reader import MEMORY_BYTES, OVERCOME, Blob, Reader
from penstock.sandbox.wasm.binding import Engine, Import, Instance

BLOB = "quickjs.wasm"
_STACK_BYTES = 200 << 10
_KEPT_BYTES = 16 << 20
"""Compiled code stays in memory: an instance with more than this is replaced."""
_MODULE = 1
_PLACE = re.compile(r":(\d+):(\d+)\n")
_OWN_LIMITS = ("out of memory", "stack overflow")
_NOT_PERMITTED = 63


class Grammar:
    """QuickJS as a syntax checker. One thread may use it at a time."""

    def __init__(self, clock: Clock, cache: Path | None) -> None:
        blob = Blob(name=BLOB, imports=IMPORTS, kept_bytes=_KEPT_BYTES, overcome=OVERCOME)
        self._reader = Reader[Findings | None](blob, clock, cache, begin=_Guest, unread=Findings)

    def check(self, source: str, seconds: float) -> Findings | None:
        """Return the syntax error of a module, or None."""
        return self._reader.read(source, seconds)

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        self._reader.close()


class _Guest:
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
        # A limit of this instance is no syntax error: `Reader` reports it and drops the instance.
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


def _name(guest: _Guest, arguments: Sequence[int]) -> int:
    """Resolve every specifier to itself: imports are checked elsewhere."""
    return guest.keep(guest.instance.read_text(arguments[1]).encode())


def _load(guest: _Guest, arguments: Sequence[int]) -> int:
    """Return an empty module for every import."""
    guest.instance.write(arguments[1], bytes(4))
    return guest.keep(b"")


def _nothing(_guest: _Guest, _arguments: Sequence[int]) -> int:
    return 0


def _refused(_guest: _Guest, _arguments: Sequence[int]) -> int:
    return _NOT_PERMITTED


def _import(name: str, parameters: str, call: Callable[[Any, Sequence[int]], int]) -> Import:
    module = "env" if name.startswith("host_") else "wasi_snapshot_preview1"
    answers = name != "host_promise_rejection"
    return Import(module=module, name=name, parameters=parameters, call=call, answers=answers)


IMPORTS = (
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
