"""Whether the engine of scripts would take a module: it is compiled, and none of it runs.

What takes out types and what finds imports read generously; this finds the rest, such as a name
that is declared twice.
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
"""What was compiled stays in memory: after so much of it an instance is not kept."""
_MODULE = 1
_PLACE = re.compile(r":(\d+):(\d+)\n")
_OWN_LIMITS = ("out of memory", "stack overflow")
_NOT_PERMITTED = 63


class Grammar:
    """The blob and an instance of it; used by one thread at a time."""

    def __init__(self, clock: Clock, cache: Path | None) -> None:
        blob = Blob(name=BLOB, imports=IMPORTS, kept_bytes=_KEPT_BYTES, overcome=OVERCOME)
        self._reader = Reader[Findings | None](blob, clock, cache, begin=_Guest, unread=Findings)

    def check(self, source: str, seconds: float) -> Findings | None:
        """Return what is wrong with a module, or None."""
        return self._reader.read(source, seconds)

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        self._reader.close()


class _Guest:
    """One instance of the blob, which has no host but this file."""

    def __init__(self, engine: Engine) -> None:
        self.instance = Instance(engine, self, MEMORY_BYTES)
        self.instance.call("_initialize")
        if self.instance.call("qjs_init"):
            raise RuntimeError("the engine of scripts does not begin")
        self._quick = self.instance.quick
        self._quick("qjs_set_max_stack_size", _STACK_BYTES)
        self._quick("qjs_set_module_loader", 1)

    def read(self, source: str) -> Findings | None:
        content = source.encode()
        code, name, size = self.keep(content), self.keep(b"module"), self.keep(bytes(4))
        made = self.instance.call("qjs_compile", code, len(content), name, _MODULE, 0, size)
        problem = None if made else self._problem(source)
        for each in (code, name, size, *([made] if made else [])):
            self._quick("wasm_free", each)
        return problem

    def keep(self, content: bytes) -> int:
        """Put bytes into memory, a zero byte behind them."""
        at = self._quick("wasm_malloc", len(content) + 1)
        if not at:
            raise RuntimeError("out of memory")
        self.instance.write(at, content + b"\0")
        return at

    def _problem(self, source: str) -> Findings:
        error = self._quick("qjs_get_exception")
        said, stack = self._member(error, b"message"), self._member(error, b"stack")
        self._quick("qjs_free_value", error)
        if any(limit in said for limit in _OWN_LIMITS):
            raise RuntimeError(said)
        found = _PLACE.search(stack)
        line, column = (int(found[1]), int(found[2])) if found else (1, 1)
        return Findings(problem=said, problem_at=_offset(source, line, column))

    def _member(self, value: int, name: bytes) -> str:
        spelled, size = self.keep(name), self.keep(bytes(4))
        member = self._quick("qjs_get_prop_string", value, spelled)
        at = self._quick("qjs_get_string_len", member, size)
        text = self.instance.read(at, self.instance.read_word(size)) if at else b""
        if at:
            self._quick("qjs_free_cstring", at)
        self._quick("qjs_free_value", member)
        for each in (spelled, size):
            self._quick("wasm_free", each)
        return text.decode("utf-8", "replace")


def _offset(source: str, line: int, column: int) -> int:
    """Return a place in characters; the engine counts columns in bytes."""
    begin = 0
    for _ in range(line - 1):
        begin = source.find("\n", begin) + 1
    end = source.find("\n", begin)
    text = source[begin : end if end >= 0 else len(source)].encode()
    return begin + len(text[: column - 1].decode("utf-8", "ignore"))


def _name(guest: _Guest, given: Sequence[int]) -> int:
    """Leave every specifier as it is: what it leads to is looked at elsewhere."""
    return guest.keep(guest.instance.read_text(given[1]).encode())


def _load(guest: _Guest, given: Sequence[int]) -> int:
    """Give an empty module for every one that is imported."""
    guest.instance.write(given[1], bytes(4))
    return guest.keep(b"")


def _nothing(_guest: _Guest, _given: Sequence[int]) -> int:
    return 0


def _refused(_guest: _Guest, _given: Sequence[int]) -> int:
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
