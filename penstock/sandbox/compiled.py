"""A blob of the sandbox as a module of wasmtime: from its kept machine code, or compiled."""

from pathlib import Path

from wasmtime import Engine, Module, WasmtimeError

from penstock.sandbox.blobs import blob, native


def compiled(engine: Engine, name: str, cache: Path | None) -> Module:
    """Return the module of one blob; without a cache it is compiled, which takes a second or two.

    Machine code made for another machine, or damaged, is thrown away and made anew.
    """
    if cache is None:
        return Module(engine, blob(name))
    path = native(name, cache, lambda wasm: bytes(Module(engine, wasm).serialize()))
    try:
        return Module.deserialize_file(engine, str(path))
    except WasmtimeError:
        path.unlink(missing_ok=True)
    path = native(name, cache, lambda wasm: bytes(Module(engine, wasm).serialize()))
    return Module.deserialize_file(engine, str(path))
