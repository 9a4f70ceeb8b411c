"""The adapter for the blob of swc, which strips types from TypeScript.

The blob was built by wasm-bindgen for a JavaScript host: it holds values as handles, numbers that
stand for objects of the host. `Objects` plays that host with Python objects. Only the imports that
stripping needs are implemented; any other traps. Proof: tests/sandbox/compiler/test_swc.py.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.core.clock import Clock
from penstock.sandbox.compiler.blob_reader import EXHAUSTED, MEMORY_BYTES, Blob, Reader
from penstock.sandbox.compiler.parsers import StripResult
from penstock.sandbox.wasm.binding import Engine, Import, Instance

BLOB = "swc.wasm"
_KEPT_BYTES = 48 << 20
_FIRST_FREE = 132
_UNDEFINED = object()
_UNDEFINED_AT = 128
_FALSY = (_UNDEFINED, None, False, 0, "")


class Swc:
    """The blob and its current instance. One thread may use it at a time."""

    def __init__(self, clock: Clock, cache: Path | None) -> None:
        blob = Blob(name=BLOB, imports=IMPORTS, kept_bytes=_KEPT_BYTES, exhausted=EXHAUSTED)
        self._reader = Reader(blob, clock, cache, begin=self._begin, failed=StripResult)
        self._objects: Objects | None = None

    @property
    def handles(self) -> int:
        """Number of objects that the instance holds handles of."""
        return self._objects.count if self._objects is not None else 0

    @property
    def size(self) -> int:
        """Bytes of the memory of the instance."""
        return self._reader.size

    def strip(self, source: str, seconds: float) -> StripResult:
        """Replace every type by spaces, within so many seconds."""
        return self._reader.read(source, seconds)

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        self._reader.close()

    def _begin(self, engine: Engine) -> "_Guest":
        guest = _Guest(engine)
        self._objects = guest.objects
        return guest


class _Guest:
    """One instance of the blob, and the objects behind its handles."""

    def __init__(self, engine: Engine) -> None:
        self.objects = Objects()
        self.instance = self.objects.instance = Instance(engine, self.objects, MEMORY_BYTES)

    def read(self, source: str) -> StripResult:
        objects, instance = self.objects, self.instance
        answer = instance.quick("__wbindgen_add_to_stack_pointer", -16)
        instance.call("transformSync", answer, objects.add(source), _UNDEFINED_AT)
        value, error, failed = struct.unpack("<III", instance.read(answer, 12))
        instance.quick("__wbindgen_add_to_stack_pointer", 16)
        return _refused(objects.take(error)) if failed else _done(objects.take(value))


class Objects:
    """The objects behind the handles of one instance, and the functions that it imports.

    The instance keeps some handles from one source to the next.
    """

    instance: Instance

    def __init__(self) -> None:
        self._objects: list[Any] = [None] * _UNDEFINED_AT + [_UNDEFINED, None, True, False]
        self._free: list[int] = []

    @property
    def count(self) -> int:
        """Number of objects."""
        return len(self._objects) - len(self._free)

    def add(self, value: Any) -> int:
        """Return a handle of an object."""
        if self._free:
            handle = self._free.pop()
            self._objects[handle] = value
            return handle
        self._objects.append(value)
        return len(self._objects) - 1

    def get(self, handle: int) -> Any:
        """Return the object of a handle."""
        return self._objects[handle]

    def take(self, handle: int) -> Any:
        """Return the object of a handle and drop the handle."""
        value = self._objects[handle]
        self.drop(handle)
        return value

    def drop(self, handle: int) -> int:
        """Drop a handle, unless it is one of the fixed ones."""
        if handle >= _FIRST_FREE:
            self._objects[handle] = None
            self._free.append(handle)
        return 0

    def text(self, address: int, size: int) -> str:
        """Read a text."""
        return self.instance.read(address, size).decode("utf-8", "replace")

    def member(self, place: int, key: int) -> int:
        """Return a handle of a member of an object."""
        value, name = self.get(place), self.get(key)
        return self.add(value.get(name, _UNDEFINED) if isinstance(value, dict) else _UNDEFINED)

    def set_member(self, place: int, key: int, value: int) -> int:
        """Set a member of an object."""
        self.get(place)[self.take(key)] = self.take(value)
        return 0

    def get_string(self, place: int, handle: int) -> int:
        """Copy a text into the memory of the blob; write its address and size to `place`."""
        value, address, size = self.get(handle), 0, 0
        if isinstance(value, str):
            text = value.encode()
            size = len(text)
            address = self.instance.quick("__wbindgen_export_2", size, 1)
            self.instance.write(address, text)
        self.instance.write(place, struct.pack("<II", address, size))
        return 0

    def get_boolean(self, handle: int) -> int:
        """Return 1 for true, 0 for false, 2 for any other value."""
        value = self.get(handle)
        return int(value) if isinstance(value, bool) else 2

    def new_number(self, bits: int) -> int:
        """Return a handle of the number with these bits of a double."""
        return self.add(struct.unpack("<d", struct.pack("<q", bits))[0])

    def throw(self, address: int, size: int) -> int:
        """Raise an internal error of the blob."""
        raise RuntimeError(self.text(address, size))

    def equals(self, first: int, second: int) -> int:
        """Compare loosely: null equals undefined."""
        left, right = self.get(first), self.get(second)
        left = None if left is _UNDEFINED else left
        right = None if right is _UNDEFINED else right
        return int(left == right)


def _done(result: Any) -> StripResult:
    return StripResult(source=result["code"])


def _refused(error: Any) -> StripResult:
    """Return the problem that the blob threw."""
    thrown: Mapping[str, Any] = error if isinstance(error, dict) else {"message": str(error)}
    line, column = 1, 0
    with suppress(TypeError, ValueError):
        line, column = int(thrown.get("startLine", 1)), int(thrown.get("startColumn", 0))
    return StripResult(
        problem=str(thrown.get("message", "not valid TypeScript")),
        is_unsupported=thrown.get("code") == "UnsupportedSyntax",
        line=line,
        column=column + 1,
    )


def _wanted() -> Iterator[tuple[str, str, int, Callable[..., int]]]:
    """Yield the imports that stripping needs: name, parameters, number of results, function."""
    yield "__wbg_getwithrefkey_1dc361bd10053bfe", "ii", 1, Objects.member
    yield "__wbg_new_405e22f390576ce2", "", 1, lambda it: it.add({})
    yield "__wbg_set_3f1d0b984ed272ed", "iii", 0, Objects.set_member
    yield "__wbindgen_boolean_get", "i", 1, Objects.get_boolean
    yield "__wbindgen_error_new", "ii", 1, lambda it, at, size: it.add(it.text(at, size))
    yield "__wbindgen_in", "ii", 1, lambda it, key, of: int(it.get(key) in it.get(of))
    yield "__wbindgen_is_falsy", "i", 1, lambda it, of: int(it.get(of) in _FALSY)
    yield "__wbindgen_is_object", "i", 1, lambda it, of: int(isinstance(it.get(of), dict))
    yield "__wbindgen_is_string", "i", 1, lambda it, of: int(isinstance(it.get(of), str))
    yield "__wbindgen_is_undefined", "i", 1, lambda it, of: int(it.get(of) is _UNDEFINED)
    yield "__wbindgen_jsval_loose_eq", "ii", 1, Objects.equals
    yield "__wbindgen_number_new", "d", 1, Objects.new_number
    yield "__wbindgen_object_clone_ref", "i", 1, lambda it, of: it.add(it.get(of))
    yield "__wbindgen_object_drop_ref", "i", 0, Objects.drop
    yield "__wbindgen_string_get", "ii", 0, Objects.get_string
    yield "__wbindgen_string_new", "ii", 1, lambda it, at, size: it.add(it.text(at, size))
    yield "__wbindgen_throw", "ii", 0, Objects.throw
    for (parameters, results), names in _UNWANTED.items():
        for name in names.split():
            yield name, parameters, results, _unwanted


_UNWANTED = {
    ("", 1): """__wbg_iterator_9a24c88df860dc65 __wbg_new_78feb108b6472713
        __wbg_static_accessor_GLOBAL_88a902d13a557d07 __wbg_static_accessor_SELF_37c5d418e4bf5819
        __wbg_static_accessor_GLOBAL_THIS_56578be7e9f832b0 __wbindgen_memory
        __wbg_static_accessor_WINDOW_5de37043a91a9c40""",
    ("I", 1): "__wbindgen_bigint_from_i64 __wbindgen_bigint_from_u64",
    ("i", 0): "__wbg_queueMicrotask_97d92b4fcc8a61c5",
    ("i", 1): """__wbg_buffer_609cc3eee51ed158 __wbg_done_769e5ede4b31c67b
        __wbg_entries_3265d4158b33e5dc __wbg_instanceof_ArrayBuffer_e14585432e3737fc
        __wbg_instanceof_Map_f3469ce2244d2430 __wbg_instanceof_Uint8Array_17156bcf118086a9
        __wbg_isArray_a1eab7e0d067391b __wbg_isSafeInteger_343e2beeeece1bb0
        __wbg_length_a446193dc22c12f8 __wbg_length_e2d2a49132c1b256 __wbg_new_a12002a7f91c75be
        __wbg_next_25feadfc0913fea9 __wbg_next_6574e1a8a62d1055
        __wbg_queueMicrotask_d3219def82552485 __wbg_resolve_4851785c9c5f573d
        __wbg_toString_5285597960676b7b __wbg_value_cd1ffa7b1ab794f1 __wbindgen_cb_drop
        __wbindgen_is_bigint __wbindgen_is_function""",
    ("ii", 0): "__wbindgen_bigint_get_as_i64 __wbindgen_debug_string __wbindgen_number_get",
    ("ii", 1): """__wbg_call_672a4d21634d4a24 __wbg_get_67b2ba62fc30de12
        __wbg_get_b9b93047fe3cf45b __wbg_new_23a2665fac83c611 __wbg_newnoargs_105ed471475aaf50
        __wbg_then_44b73946d2fb3e7d __wbindgen_jsval_eq""",
    ("iii", 0): "__wbg_set_37837023f3d740e8 __wbg_set_65595bdd868b3009",
    ("iii", 1): "__wbg_call_7cccdd69e0791ae2 __wbindgen_closure_wrapper5432",
}
"""Imports for other uses of the blob. They must exist for the blob to load."""


def _unwanted(_objects: Objects, *_arguments: int) -> int:
    raise RuntimeError("the blob called an import that stripping does not need")


def _import(name: str, parameters: str, results: int, call: Callable[..., int]) -> Import:
    def enter(objects: Objects, arguments: Sequence[int]) -> int:
        return call(objects, *arguments)

    return Import(
        module="__wbindgen_placeholder__",
        name=name,
        parameters=parameters,
        answers=bool(results),
        call=enter,
    )


IMPORTS = tuple(_import(*row) for row in _wanted())
