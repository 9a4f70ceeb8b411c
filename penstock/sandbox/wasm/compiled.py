"""A blob of the sandbox as a module of wasmtime: from its kept machine code, or compiled."""

import logging
from contextlib import suppress
from pathlib import Path

from wasmtime import Engine, Module, WasmtimeError

from penstock.sandbox.blobs import blob, machine_code, write_whole

log = logging.getLogger(__name__)


def compiled(engine: Engine, name: str | bytes, cache: Path | None) -> Module:
    """Return the module of one blob; without a cache it is compiled, which takes some seconds.

    A module that is no blob of ours is given as its bytes. Machine code made for another machine,
    or damaged, is deleted and compiled again.
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
        log.warning("%s is compiled at every start, because it cannot be kept: %s", name, error)
        module = Module(engine, blob(name))
    return module
