"""A script that is ready to run, its limits, and the port of a sandbox that runs it."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json
from penstock.sandbox.bridge import Bridge

WASM, DENO = "wasm", "deno"
"""The names of the engines: QuickJS in wasm, and V8 in Deno."""
RUNTIME = "flo:runtime"
"""The only specifier that names no file: a module with the members of the global `flo`."""
RUNTIME_NAMES = (
    "callTool",
    "sleep",
    "getRuntimeConfig",
    "file",
    "time",
    "vault",
    "state",
    "task",
    "fs",
    "dispatcher",
    "browser",
    "ToolError",
    "FloError",
)
"""The members of `flo` and exports of RUNTIME."""


class Module(Struct, frozen=True, kw_only=True):
    """One file of a script as JavaScript, with every position as in the author's source."""

    name: str
    """Relative to the folder of the manifest, with `/`; on stacks `tool:///{name}`."""
    source: str
    imports: Mapping[str, str]
    """Maps each specifier, as written, to the name of a module, or to RUNTIME."""
    is_json: bool = False


class Script(Struct, frozen=True, kw_only=True):
    """The modules that one tool runs, checked and stripped of types."""

    entry: str
    """The name of the module that is entered."""
    entrypoint: str
    """The exported function that is called."""
    modules: Mapping[str, Module]
    digest: str
    """SHA-256 of the sources, the entry and the entrypoint."""
    engine: str | None = None
    """The engine that the author requests; None for the project's."""
    file: str = ""
    """The file of the entry relative to the project, for messages; empty if not known."""


class LoadResult(Struct, frozen=True, kw_only=True):
    """The result of loading a script: the script, or its problems by file and line."""

    script: Script | None = None
    problems: tuple[Diagnostic, ...] = ()
    """Errors; empty if there is a script."""
    warnings: tuple[Diagnostic, ...] = ()
    """Findings in a script that can run."""


class Bounds(Struct, frozen=True, kw_only=True):
    """Limits of one entry."""

    seconds: float
    """Wall time that is left of the call's timeout."""
    cpu_ms: int = 30_000
    """Computing time of one attempt, over all of its entries."""
    spent_ms: int = 0
    """Computing time of earlier entries."""
    memory_mb: int = 64
    stack_kb: int = 200
    host_calls: int = 10_000
    message_bytes: int = 8 * 1024 * 1024
    """Size of the arguments of one host call, as JSON."""
    output_bytes: int = 1024 * 1024
    json_depth: int = 200
    log_bytes: int = 262_144
    log_lines: int = 2_000
    log_line_bytes: int = 8_192
    timers: int = 1_000


class Sandbox(Protocol):
    """Runs untrusted scripts.

    Contract: a script reaches only its Bridge, does not block other scripts, and has ended when
    `run` returns or raises. Cancelling `run` ends the script within 50 ms.
    """

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        """Run the script from its first line; return its output, which is JSON.

        Raises ScriptError, ScriptLoadError, ToolTimeout, OutOfMemory, OutputTooLarge, the CallError
        of an uncaught FloError, and the Signal of a host call when no other call can settle.
        """
        ...

    def engine_for(self, requested: str | None) -> str:
        """Return the name of the engine for a script that requests this engine, or None."""
        ...

    async def close(self) -> None:
        """Stop all scripts and wait until they have ended."""
        ...
