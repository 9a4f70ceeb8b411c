"""Scripts of tests in plain JavaScript, as after the check."""

from collections.abc import Mapping
from typing import Any

from penstock.sandbox.script import RUNTIME, Bounds, Module, Sandbox, Script
from penstock.testing.bridge import FakeBridge

BOUNDS = Bounds(seconds=5)


def script_of(source: str, others: Mapping[str, str] | None = None) -> Script:
    """Return a script whose `main.mjs` may import each of the others as `./{name}`."""
    names = list(others or {})
    imports = {f"./{name}": name for name in (*names, "main.mjs")} | {RUNTIME: RUNTIME}
    sources = {"main.mjs": source} | dict(others or {})
    modules = {
        name: Module(name=name, source=text, imports=imports, is_json=name.endswith(".json"))
        for name, text in sources.items()
    }
    return Script(entry="main.mjs", entrypoint="run", modules=modules, digest="digest")


async def value_of(sandbox: Sandbox, expression: str, bridge: FakeBridge | None = None) -> Any:
    """Return what a script gives that returns this expression."""
    source = f"export const run = async () => ({expression});"
    return await sandbox.run(script_of(source), {}, bridge or FakeBridge(), BOUNDS)
