"""What QuickJS may call of its host: modules, our functions, a clock that stands still; no file."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.core.clock import Clock
from penstock.sandbox.wasm.binding import Engine, Import
from penstock.sandbox.wasm.machine import Machine
from penstock.sandbox.wasm.ticker import LINGER

BLOB = "quickjs.wasm"
_NOT_PERMITTED, _NO_SUCH_FILE = 63, 8
_NS_PER_MS = 1_000_000


def start_engine(clock: Clock, cache: Path | None, *, linger: int = LINGER) -> Engine:
    """Return the engine that machines are made in."""
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


def _zero(_machine: Machine, _given: Sequence[int]) -> int:
    return 0


def _on_rejection(machine: Machine, given: Sequence[int]) -> int:
    promise, reason, is_handled = given
    machine.note_rejection(promise, reason, is_handled=bool(is_handled))
    return 0


def _on_name(machine: Machine, given: Sequence[int]) -> int:
    above, specifier = (machine.instance.read_text(at) for at in given)
    return machine.name_module(above, specifier)


def _on_load(machine: Machine, given: Sequence[int]) -> int:
    name, length_at = given
    return machine.load_module(machine.instance.read_text(name), length_at)


def _on_call(machine: Machine, given: Sequence[int]) -> int:
    name_at, name_size, _this, count, values_at = given
    instance = machine.instance
    name = instance.read(name_at, name_size).decode("utf-8", "replace")
    values = struct.unpack(f"<{count}I", instance.read(values_at, 4 * count))
    return machine.hear(name, values)


def _on_clock(machine: Machine, given: Sequence[int]) -> int:
    _which, _precision, at = given
    moment = machine.world.now_ms * _NS_PER_MS
    machine.instance.write(at, moment.to_bytes(8, "little"))
    return 0


def _on_random(machine: Machine, given: Sequence[int]) -> int:
    at, size = given
    machine.instance.write(at, machine.world.draw(size))
    return 0


def _no_file(_machine: Machine, _given: Sequence[int]) -> int:
    return _NO_SUCH_FILE


def _not_permitted(_machine: Machine, _given: Sequence[int]) -> int:
    return _NOT_PERMITTED
