"""Loads a blob as a wasmtime module: from cached machine code, or by compiling it."""

import logging
from contextlib import suppress
from pathlib import Path

from wasmtime import Engine, Module, WasmtimeError

from penstock.sandbox.blobs import blob, machine_code, write_whole

log = logging.getLogger(__name__)


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
