"""The sources that an engine evaluates: the guest sources in `sdk/` and a script's modules."""

import json
import re
from functools import cache
from pathlib import Path

from penstock.sandbox.script import RUNTIME, RUNTIME_NAMES, Module, Script

GUEST = "flo:guest"
"""The name of the guest sources on stacks. Their frames are removed from the stacks of errors."""
TOOL = "tool:///"
"""The prefix of module names on stacks."""
SDK = Path(__file__).with_name("sdk")
HOST_FUNCTIONS = ("post", "answer", "encodeUtf8", "decodeUtf8", "digest", "randomBytes")
"""The functions of the engine that the guest sources call."""
_PARTS = (
    *("begin", "json", "errors", "host", "inspect", "console", "timers", "encoding", "url_host"),
    *("url_parser", "url", "abort", "blob", "fetch", "crypto", "clone", "flo", "task"),
    *("seal", "run"),
)
"""The files of the guest sources, in order. They form one text: each may use the ones before."""
_DECLARATIONS = ("flo.d.ts", "builtins.d.ts", "globals.d.ts")
_OUTPUT = re.compile(r"^  (\w+): ", re.MULTILINE)


def guest_source() -> str:
    """Return the source of a function that sets up the globals of scripts.

    It takes HOST_FUNCTIONS and returns the function that receives messages of the host.
    """
    parts = [(SDK / f"guest_{part}.js").read_text("utf-8") for part in _PARTS]
    return f'(function ({", ".join(HOST_FUNCTIONS)}) {{\n"use strict";\n{"".join(parts)}}})'


def url_of(name: str) -> str:
    """Return the URL of a module, as stacks show it."""
    return name if name == RUNTIME else f"{TOOL}{name}"


def source_of(module: Module) -> str:
    """Return the JavaScript of a module."""
    if module.is_json:
        # JSON.parse of a string literal: in an object literal `__proto__` would set a prototype.
        return f"export default JSON.parse({json.dumps(module.source)});"
    return module.source


def runtime_source() -> str:
    """Return the source of `flo:runtime`, which exports the members of the global `flo`."""
    return "".join(f"export const {name} = flo.{name};" for name in RUNTIME_NAMES)


def plan_of(script: Script) -> str:
    """Return all modules of a script as JSON, for an engine in another process."""
    modules = {
        url_of(name): {
            "source": source_of(module),
            "imports": {specifier: url_of(target) for specifier, target in module.imports.items()},
        }
        for name, module in script.modules.items()
    }
    modules[RUNTIME] = {"source": runtime_source(), "imports": {}}
    return json.dumps({"entry": url_of(script.entry), "modules": modules})


@cache
def fixed_part() -> str:
    """Return the declarations that all scripts share: `flo`, outputs of built-in tools, globals."""
    return "\n".join((SDK / name).read_text("utf-8") for name in _DECLARATIONS)


@cache
def known_outputs() -> frozenset[str]:
    """Return the ids of the tools whose outputs `FloBuiltInOutputs` declares."""
    text = (SDK / "builtins.d.ts").read_text("utf-8")
    return frozenset(_OUTPUT.findall(text.partition("interface FloBuiltInOutputs")[2]))
