"""The binding to the wasm engine: instances, their memory, interruption and traps.

Guarantees: a guest reads and writes its own memory only, computes no longer than its alarm allows,
and an exception in a host function reaches the caller of `Instance.call` unchanged.

How: the call layer of wasmtime-py costs ten times the call itself, so this file calls the library
that wasmtime-py ships, through ctypes. Relies on `wasmtime._bindings`, which is private: wasmtime
is pinned to one major version. Run tests/sandbox/wasm/test_binding.py whenever the pin changes.
"""

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import wasmtime
from msgspec import Struct
from wasmtime import _bindings as library
from wasmtime._ffi import dll

from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.sandbox.wasm.native_engine import Ticker, compiled, engine_config

PAGE = 65_536
_WORD = 0xFFFFFFFF
_MAX_ARGUMENTS = 8
_SLOT = 2
"""64-bit words per value (it could be a vector). Our values use the first word only."""

Alarm = Callable[[], str | None]
"""Called at every epoch while a guest computes. A returned reason stops the guest."""


class Import(Struct, frozen=True, kw_only=True):
    """A host function that a guest may call. `parameters` has one type letter (d, i, I) each."""

    module: str
    name: str
    parameters: str
    answers: bool
    call: Callable[[Any, Sequence[int]], int]
    """Called with the owner of the instance and the arguments."""


class Engine:
    """A wasm module, compiled once; a factory of instances.

    Host functions are defined here, once: wasmtime-py keeps them in a table without a lock, so
    defining them per instance from several threads is a race. `current`, a thread local, holds the
    instance that calls.
    """

    def __init__(
        self, blob: str | bytes, imports: Sequence[Import], clock: Clock, cache: Path | None = None
    ) -> None:
        config = engine_config()
        self.native = wasmtime.Engine(config)
        self.ticker = Ticker(self.native.increment_epoch, clock)
        self.current = threading.local()
        self.module = compiled(self.native, blob, cache)
        self._linker = wasmtime.Linker(self.native)
        self._kept: list[Any] = [config]
        for function in imports:
            self._define(function)
        self.template = ctypes.POINTER(library.wasmtime_instance_pre_t)()
        _check(
            library.wasmtime_linker_instantiate_pre(
                self._linker.ptr(), self.module.ptr(), ctypes.byref(self.template)
            )
        )
        self.on_epoch = _EPOCH_CALLBACK(self._epoch)

    def close(self) -> None:
        """End the ticker. Open instances stay usable, without deadlines."""
        self.ticker.close()

    def _define(self, function: Import) -> None:
        kinds = {"d": wasmtime.ValType.f64, "i": wasmtime.ValType.i32, "I": wasmtime.ValType.i64}
        results = [wasmtime.ValType.i32()] if function.answers else []
        type_ = wasmtime.FuncType([kinds[each]() for each in function.parameters], results)
        callback = _CALLBACK(self._entry_point(function))
        self._kept += [callback, type_]  # the library holds bare pointers to both
        module, name = function.module.encode(), function.name.encode()
        _check(
            library.wasmtime_linker_define_func_unchecked(
                self._linker.ptr(),
                ctypes.create_string_buffer(module),
                len(module),
                ctypes.create_string_buffer(name),
                len(name),
                type_.ptr(),
                ctypes.cast(callback, library.wasmtime_func_unchecked_callback_t),
                None,
                _NO_FINALIZER,
            )
        )

    def _entry_point(self, function: Import) -> Callable[..., int]:
        """Return the function that wasm calls. `Instance.call` re-raises its exceptions."""
        call, answers = function.call, function.answers
        masks = [_WORD if kind == "i" else -1 for kind in function.parameters]

        def enter(_environment: Any, _caller: Any, values: Any, _count: int) -> int:
            instance: Instance = self.current.instance
            arguments = [values[_SLOT * at] & mask for at, mask in enumerate(masks)]
            if answers:
                values[0] = 0
            with _KeepError(instance):
                result = call(instance.owner, arguments)
                if answers:
                    values[0] = result
            return 0 if instance.failure is None else _new_trap()

        return enter

    def _epoch(self, _context: Any, _payload: Any, delta: Any, kind: Any) -> int:
        instance: Instance = self.current.instance
        delta[0] = 1  # epochs until the next call; `kind` stays at its default, continue
        instance.stopped = "failed"  # stays if the alarm itself raises
        with _KeepError(instance):
            instance.stopped = instance.alarm()
        if instance.stopped is None:
            return 0
        stopped = library.wasmtime_error_new(ctypes.create_string_buffer(b"stopped"))
        return ctypes.cast(stopped, ctypes.c_void_p).value or 0


class Instance:
    """One guest: its memory and its functions. Any thread may use it, one at a time.

    A call that the alarm stops raises TimeoutError with the reason; any other trap raises
    RuntimeError. After either the instance is broken: close it.
    """

    def __init__(self, engine: Engine, owner: Any, memory_bytes: int) -> None:
        self._engine = engine
        self.owner = owner
        """The first argument of host functions."""
        self.alarm: Alarm = _never
        self.stopped: str | None = None
        self.failure: BaseException | None = None
        self.depth = 0
        """Number of host functions on the stack."""
        self._store = wasmtime.Store(engine.native)
        self._store.set_limits(memory_size=memory_bytes)
        self._context = library.wasmtime_store_context(self._store.ptr())
        _ON_EPOCH(self._store.ptr(), engine.on_epoch, None, None)
        library.wasmtime_context_set_epoch_deadline(self._context, 1)
        self._handle = library.wasmtime_instance_t()
        trap = ctypes.POINTER(library.wasm_trap_t)()
        self._engine.current.instance = self
        _check(
            library.wasmtime_instance_pre_instantiate(
                engine.template, self._context, ctypes.byref(self._handle), ctypes.byref(trap)
            )
        )
        self._functions: dict[str, Any] = {}
        self._values = _Values()
        self._trap = ctypes.c_void_p()
        self._trap_at = ctypes.byref(self._trap)
        self._memory_export = self._export("memory")
        self._memory = ctypes.byref(self._memory_export.of.memory)
        self._begins = int(_MEMORY(self._context, self._memory))
        self._size = self.size

    def close(self) -> None:
        """Free the memory."""
        self._store.close()

    def call(self, name: str, *arguments: int) -> int:
        """Call a function of the guest that may run a script. Releases the GIL."""
        return self._call(_LONG, name, arguments)

    def quick(self, name: str, *arguments: int) -> int:
        """Call a function that ends soon. Keeps the GIL: releasing it costs more than the call."""
        return self._call(_SHORT, name, arguments)

    def read(self, address: int, size: int) -> bytes:
        """Return a piece of memory. The guest chooses the address, so it is checked."""
        self._check_inside(address, size)
        return ctypes.string_at(self._begins + address, size)

    def write(self, address: int, content: bytes) -> None:
        """Write bytes into memory."""
        self._check_inside(address, len(content))
        ctypes.memmove(self._begins + address, content, len(content))

    def read_word(self, address: int) -> int:
        """Return a pointer or a length."""
        return int.from_bytes(self.read(address, 4), "little")

    def read_text(self, address: int, limit: int = 4096) -> str:
        """Return a text that ends with a zero byte."""
        content = self.read(address, min(limit, max(0, self.size - address)))
        return content.partition(b"\0")[0].decode("utf-8", "replace")

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return int(_MEMORY_SIZE(self._context, self._memory))

    def grow_to(self, size: int) -> None:
        """Grow memory to at least `size` bytes."""
        pages, before = -(-(size - self.size) // PAGE), ctypes.c_uint64()
        if pages > 0:
            grown = library.wasmtime_memory_grow(
                self._context, self._memory, pages, ctypes.byref(before)
            )
            _check(grown)

    @property
    def stack_pointer(self) -> int:
        """Where the stack in memory ends."""
        value = library.wasmtime_val_t()
        library.wasmtime_global_get(self._context, self._stack(), ctypes.byref(value))
        return int(value.of.i32)

    @stack_pointer.setter
    def stack_pointer(self, address: int) -> None:
        value = library.wasmtime_val_t()
        value.of.i32 = address  # its kind is i32, which is 0, the default
        _check(library.wasmtime_global_set(self._context, self._stack(), ctypes.byref(value)))

    def _stack(self) -> Any:
        self._stack_export = self._export("__stack_pointer")
        return ctypes.byref(self._stack_export.of.global_)

    def _call(self, invoke: Any, name: str, arguments: Sequence[int]) -> int:
        function = self._functions.get(name) or self._function(name)
        # A call inside a host function needs its own array: the outer call still uses the shared.
        values = _Values() if self.depth else self._values
        for at, argument in enumerate(arguments):
            values[_SLOT * at] = argument
        self._engine.current.instance = self
        error = invoke(self._context, function[0], values, _MAX_ARGUMENTS, self._trap_at)
        if error or self._trap.value or self.failure:
            self._raise(error)
        return int(values[0]) & _WORD

    def _raise(self, error: int | None) -> None:
        trap = self._trap.value
        self._trap.value = None
        text = _message_of_error(error) if error else _message_of_trap(trap) if trap else ""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        if self.stopped is not None:
            raise TimeoutError(self.stopped)
        raise RuntimeError(text.strip().splitlines()[-1] if text.strip() else "trap")

    def _function(self, name: str) -> Any:
        """Look up one export on first use: looking up all 450 costs more than a script."""
        export = self._export(name)
        self._functions[name] = entry = (ctypes.byref(export.of.func), export)
        return entry

    def _export(self, name: str) -> Any:
        export = library.wasmtime_extern_t()
        if not library.wasmtime_instance_export_get(
            self._context,
            ctypes.byref(self._handle),
            _spelled(name),
            len(name),
            ctypes.byref(export),
        ):
            raise ConfigError(f"the wasm blob has no {name!r}: it is not the pinned one")
        return export

    def _check_inside(self, address: int, size: int) -> None:
        if address + size > self._size:
            self._size = self.size
        if address + size > self._size:
            raise RuntimeError("the guest passed an address outside its memory")


@cache
def _spelled(name: str) -> Any:
    """Return the name of an export as a C string. There are few names, so the cache is bounded."""
    return ctypes.create_string_buffer(name.encode("ascii"))


def _new_trap() -> int:
    """Return a trap that ends the guest at once: it must not continue after the host refused."""
    message = b"the host refused"
    trap = library.wasmtime_trap_new(ctypes.create_string_buffer(message), len(message))
    return ctypes.cast(trap, ctypes.c_void_p).value or 0


def _never() -> str | None:
    return None


def _check(error: Any) -> None:
    if error:
        raise RuntimeError(_message_of_error(ctypes.cast(error, ctypes.c_void_p).value))


def _message_of_error(error: int | None) -> str:
    pointer = ctypes.cast(error or 0, ctypes.POINTER(library.wasmtime_error_t))
    text = library.wasm_byte_vec_t()
    library.wasmtime_error_message(pointer, ctypes.byref(text))
    library.wasmtime_error_delete(pointer)
    return _taken(text)


def _message_of_trap(trap: int) -> str:
    pointer = ctypes.cast(trap, ctypes.POINTER(library.wasm_trap_t))
    text = library.wasm_byte_vec_t()
    library.wasm_trap_message(pointer, ctypes.byref(text))
    library.wasm_trap_delete(pointer)
    return _taken(text)


def _taken(text: Any) -> str:
    taken = ctypes.string_at(text.data, text.size).decode("utf-8", "replace").rstrip("\0")
    library.wasm_byte_vec_delete(ctypes.byref(text))
    return taken


class _KeepError:
    """Keeps the exception of a host function: it must not propagate through native frames."""

    __slots__ = ("_instance",)

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def __enter__(self) -> None:
        self._instance.depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._instance.depth -= 1
        self._instance.failure = self._instance.failure or error
        return True


def _function(make: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of the library with our own types.

    Setting types on wasmtime-py's function objects would change wasmtime-py.
    """
    address = ctypes.cast(dll[name], ctypes.c_void_p).value
    return make(result, *arguments)(address)


_pointer = ctypes.c_void_p
_Values = ctypes.c_int64 * (_SLOT * _MAX_ARGUMENTS)
_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_size_t, _pointer, _pointer, ctypes.POINTER(ctypes.c_int64), ctypes.c_size_t
)
_CALL = (_pointer, _pointer, _pointer, ctypes.c_size_t, _pointer)
_LONG = _function(ctypes.CFUNCTYPE, "wasmtime_func_call_unchecked", _pointer, *_CALL)
_SHORT = _function(ctypes.PYFUNCTYPE, "wasmtime_func_call_unchecked", _pointer, *_CALL)
_MEMORY = _function(ctypes.PYFUNCTYPE, "wasmtime_memory_data", _pointer, _pointer, _pointer)
_MEMORY_SIZE = _function(
    ctypes.PYFUNCTYPE, "wasmtime_memory_data_size", ctypes.c_size_t, _pointer, _pointer
)
_EPOCH_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    _pointer,
    _pointer,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint8),
)
_SET_CALLBACK = (_pointer, _EPOCH_CALLBACK, _pointer, _pointer)
_ON_EPOCH = _function(
    ctypes.CFUNCTYPE, "wasmtime_store_epoch_deadline_callback", None, *_SET_CALLBACK
)
_NO_FINALIZER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)()
