"""The sources that an engine reads: our part of the world of scripts, and modules as they run."""

import json
import re
from functools import cache
from pathlib import Path

from penstock.sandbox.script import RUNTIME, RUNTIME_NAMES, Module, Script

GUEST = "flo:guest"
"""The name of our own source on stacks: what stands in it is cut from them."""
TOOL = "tool:///"
"""What the names of modules begin with on stacks."""
SDK = Path(__file__).with_name("sdk")
HOST_FUNCTIONS = ("post", "answer", "encodeUtf8", "decodeUtf8", "digest", "chance")
"""What our part of the world calls of its engine."""
_PARTS = (
    *("begin", "json", "errors", "host", "inspect", "console", "timers", "encoding", "url_host"),
    *("url_parser", "url", "abort", "blob", "fetch", "crypto", "clone", "flo", "task"),
    *("seal", "run"),
)
"""Files of ours, in order: they make one text, so each may use what stands before."""
_DECLARATIONS = ("flo.d.ts", "builtins.d.ts", "globals.d.ts")
_OUTPUT = re.compile(r"^  (\w+): ", re.MULTILINE)


def guest_source() -> str:
    """Return a function of HOST_FUNCTIONS that makes the world, and returns what hears the host."""
    parts = [(SDK / f"guest_{part}.js").read_text("utf-8") for part in _PARTS]
    return f'(function ({", ".join(HOST_FUNCTIONS)}) {{\n"use strict";\n{"".join(parts)}}})'


def url_of(name: str) -> str:
    """Return the name of a module as stacks show it."""
    return name if name == RUNTIME else f"{TOOL}{name}"


def source_of(module: Module) -> str:
    """Return what the engine compiles."""
    if module.is_json:
        return f"export default JSON.parse({json.dumps(module.source)});"
    return module.source


def runtime_source() -> str:
    """Return the source of `flo:runtime`: the members of the global, by name."""
    return "".join(f"export const {name} = flo.{name};" for name in RUNTIME_NAMES)


def plan_of(script: Script) -> str:
    """Return all modules of a script as JSON, for an engine in another process."""
    modules = {
        url_of(name): {
            "source": source_of(module),
            "imports": {written: url_of(found) for written, found in module.imports.items()},
        }
        for name, module in script.modules.items()
    }
    modules[RUNTIME] = {"source": runtime_source(), "imports": {}}
    return json.dumps({"entry": url_of(script.entry), "modules": modules})


@cache
def fixed_part() -> str:
    """Return the declarations of `flo`, of what built-in tools return, and of the globals."""
    return "\n".join((SDK / name).read_text("utf-8") for name in _DECLARATIONS)


@cache
def known_outputs() -> frozenset[str]:
    """Return the tools whose outputs `FloBuiltInOutputs` of the fixed part declares."""
    text = (SDK / "builtins.d.ts").read_text("utf-8")
    return frozenset(_OUTPUT.findall(text.partition("interface FloBuiltInOutputs")[2]))
