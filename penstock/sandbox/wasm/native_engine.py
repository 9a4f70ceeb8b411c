"""The native side of the wasm engine: configuration, machine code, and the thread of deadlines.

Guarantees that the alarm of a running guest is called about every 5 ms, also on a loaded machine,
and that an idle process does not wake up. `Ticker` is a daemon thread that advances the epoch;
after a second without a guest it waits for an event. Relies on `begin` and `end` around every
computation: a guest that computes outside of them has no deadline. The thread holds the ticker
weakly, so a dropped engine ends it. It is started again after fork().

`compiled` loads a blob from its cached machine code, or compiles it, which takes a second or two.
Proof: tests/sandbox/wasm/test_native_engine.py.
"""

import logging
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import wasmtime
from wasmtime import Engine, Module, WasmtimeError
from wasmtime import _bindings as library

from penstock.core.clock import Clock
from penstock.sandbox.blobs import blob, machine_code, write_whole

log = logging.getLogger(__name__)
_STACK = 1 << 20
"""Bytes of native stack for a guest; a script's own limit is far below, and throws a RangeError."""
_MAX_MEMORY = 640 << 20
"""Bytes of address space for one memory. The default reserves 4 GB for traps by signal, which are
off; processes with a limited address space would run out."""
TICK = 0.005
"""Seconds between two epochs: the precision of deadlines."""
LINGER = 200
"""Ticks without a guest after which the thread sleeps until a guest computes."""


def engine_config() -> wasmtime.Config:
    """Return the configuration. wasmtime refuses machine code of another one."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    # With traps by signal, a trap kills the process if faulthandler was enabled after the engine.
    library.wasmtime_config_signals_based_traps_set(config.ptr(), False)  # noqa: FBT003
    config.max_wasm_stack = _STACK
    config.memory_reservation = _MAX_MEMORY
    config.memory_guard_size = 0
    config.memory_may_move = False  # `Instance._begins` is read once
    return config


def compiled(engine: Engine, name: str | bytes, cache: Path | None) -> Module:
    """Return the module of one blob. Without a cache it is compiled, which takes some seconds.

    Pass the bytes of a module that is not one of our blobs. Machine code that is damaged, or made
    for another machine, is compiled again and replaced.
    """
    if isinstance(name, bytes):
        return Module(engine, name)
    if cache is None:
        return Module(engine, blob(name))
    try:
        path = machine_code(name, cache)
        if path.is_file():
            with suppress(WasmtimeError):
                return Module.deserialize_file(engine, str(path))
        module = Module(engine, blob(name))
        write_whole(path, bytes(module.serialize()))
    except OSError as error:
        log.warning("%s is compiled at every start; the cache cannot be used: %s", name, error)
        module = Module(engine, blob(name))
    return module


class Ticker:
    """A thread that advances the epoch while a guest computes."""

    def __init__(self, advance: Callable[[], None], clock: Clock) -> None:
        self.linger = LINGER
        self._advance = advance
        self._clock = clock
        self._running: set[object] = set()
        self._closed = False
        self._start()
        # A thread does not survive fork(): without this no deadline fires in the child.
        ticker = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _restart(ticker()))

    def begin(self, guest: object) -> None:
        """Record that a guest starts to compute."""
        self._running.add(guest)
        # `set` takes a lock; the thread is nearly always awake already.
        if not self._awake.is_set():
            self._awake.set()

    def end(self, guest: object) -> None:
        """Record that a guest has stopped computing."""
        self._running.discard(guest)

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._pause.set()
        self._awake.set()

    def restart(self) -> None:
        """Start again in a child process after fork()."""
        self._running.clear()
        if not self._closed:
            self._start()

    def _start(self) -> None:
        self._awake, self._pause = threading.Event(), threading.Event()
        threading.Thread(target=_tick, args=(weakref.ref(self),), daemon=True).start()

    def wait(self) -> bool:
        """Wait until a guest computes; return False when closed. Called by the thread."""
        return self._awake.wait() and not self._closed

    def follow(self) -> None:
        """Advance until no guest has computed for a while. Called by the thread."""
        due, idle = self._clock.monotonic() + TICK, 0
        while idle < self.linger and not self._pause.wait(TICK):
            idle = 0 if self._running else idle + 1
            # Catch up with the clock: on a loaded machine a wait of 5 ms may take 50.
            while self._clock.monotonic() >= due:
                self._advance()
                due += TICK
        self._awake.clear()
        # A guest that began between the last look and `clear` saw the event set: set it for it.
        if self._running:
            self._awake.set()


def _tick(ticker: weakref.ref[Ticker]) -> None:
    while (living := ticker()) and living.wait():
        living.follow()


def _restart(ticker: Ticker | None) -> None:
    if ticker is not None:
        ticker.restart()
