"""The imports of QuickJS in wasm: modules, our host functions, a clock and randomness; no files."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.core.clock import Clock
from penstock.sandbox.wasm.binding import Engine, Import
from penstock.sandbox.wasm.machine import Machine
from penstock.sandbox.wasm.native_engine import LINGER

BLOB = "quickjs.wasm"
_NOT_PERMITTED, _NO_SUCH_FILE = 63, 8
_NS_PER_MS = 1_000_000


def start_engine(clock: Clock, cache: Path | None, *, linger: int = LINGER) -> Engine:
    """Return the engine for machines. These imports are all that QuickJS can call."""
    env, wasi = "env", "wasi_snapshot_preview1"
    imports = [
        _import(env, "host_get_timezone_offset", "ii", _zero),
        _import(env, "host_interrupt", "", _zero),
        _import(env, "host_promise_rejection", "iii", _on_rejection, answers=False),
        _import(env, "host_module_normalize", "ii", _on_name),
        _import(env, "host_module_load", "ii", _on_load),
        _import(env, "host_call", "iiiii", _on_call),
        _import(wasi, "clock_time_get", "iIi", _on_clock),
        _import(wasi, "random_get", "ii", _on_random),
        _import(wasi, "fd_close", "i", _no_file),
        _import(wasi, "fd_fdstat_get", "ii", _no_file),
        _import(wasi, "fd_seek", "iIii", _not_permitted),
        _import(wasi, "fd_write", "iiii", _no_file),
    ]
    engine = Engine(BLOB, imports, clock, cache)
    engine.ticker.linger = linger
    return engine


def _import(
    module: str,
    name: str,
    parameters: str,
    call: Callable[[Any, Sequence[int]], int],
    *,
    answers: bool = True,
) -> Import:
    return Import(module=module, name=name, parameters=parameters, call=call, answers=answers)


def _zero(_machine: Machine, _arguments: Sequence[int]) -> int:
    return 0


def _on_rejection(machine: Machine, arguments: Sequence[int]) -> int:
    promise, reason, is_handled = arguments
    machine.note_rejection(promise, reason, is_handled=bool(is_handled))
    return 0


def _on_name(machine: Machine, arguments: Sequence[int]) -> int:
    importer, specifier = (machine.instance.read_text(address) for address in arguments)
    return machine.name_module(importer, specifier)


def _on_load(machine: Machine, arguments: Sequence[int]) -> int:
    name, length_at = arguments
    return machine.load_module(machine.instance.read_text(name), length_at)


def _on_call(machine: Machine, arguments: Sequence[int]) -> int:
    name_at, name_size, _this, count, values_at = arguments
    instance = machine.instance
    name = instance.read(name_at, name_size).decode("utf-8", "replace")
    values = struct.unpack(f"<{count}I", instance.read(values_at, 4 * count))
    return machine.answer_call(name, values)


def _on_clock(machine: Machine, arguments: Sequence[int]) -> int:
    # Every clock shows the time of the last delivery, so that a replay sees the same time.
    _which, _precision, address = arguments
    time_ns = machine.world.now_ms * _NS_PER_MS
    machine.instance.write(address, time_ns.to_bytes(8, "little"))
    return 0


def _on_random(machine: Machine, arguments: Sequence[int]) -> int:
    address, size = arguments
    machine.instance.write(address, machine.world.draw(size))
    return 0


def _no_file(_machine: Machine, _arguments: Sequence[int]) -> int:
    return _NO_SUCH_FILE


def _not_permitted(_machine: Machine, _arguments: Sequence[int]) -> int:
    return _NOT_PERMITTED
