"""A script that is ready to run, and what runs it."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json
from penstock.sandbox.bridge import Bridge

WASM, DENO = "wasm", "deno"
"""The engines."""
RUNTIME = "flo:runtime"
"""The one specifier that names no file: the members of the global `flo`."""
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
"""Those members."""


class Module(Struct, frozen=True, kw_only=True):
    """One file of a script: JavaScript, every position as it stands in what the author wrote."""

    name: str
    """Relative to the folder of the manifest, with `/`; on stacks `tool:///{name}`."""
    source: str
    imports: Mapping[str, str]
    """Specifier, as it is written, to the name of a module, or to RUNTIME."""
    is_json: bool = False


class Script(Struct, frozen=True, kw_only=True):
    """The modules that one tool runs, checked and stripped of types."""

    entry: str
    """The module to begin with."""
    entrypoint: str
    """The function it exports."""
    modules: Mapping[str, Module]
    digest: str
    """Another one when any source is another."""
    engine: str | None = None
    """The engine that its author wants; None is the project's."""
    file: str = ""
    """Where authors look for the entry: relative to the project; none knows it here."""


class LoadResult(Struct, frozen=True, kw_only=True):
    """What came of reading modules: a script; or problems, by file and line."""

    script: Script | None = None
    problems: tuple[Diagnostic, ...] = ()
    """Why there is none."""
    warnings: tuple[Diagnostic, ...] = ()
    """What will not do in a script that is whole."""


class Bounds(Struct, frozen=True, kw_only=True):
    """What one entry may use."""

    seconds: float
    """Wall time that is left of the timeout."""
    cpu_ms: int = 30_000
    """Computing time of one attempt."""
    spent_ms: int = 0
    """Of it, what earlier entries took."""
    memory_mb: int = 64
    stack_kb: int = 200
    host_calls: int = 10_000
    message_bytes: int = 8 * 1024 * 1024
    """The arguments of one host call, as JSON."""
    output_bytes: int = 1024 * 1024
    json_depth: int = 200
    log_bytes: int = 262_144
    log_lines: int = 2_000
    log_line_bytes: int = 8_192
    timers: int = 1_000


class Sandbox(Protocol):
    """Runs scripts of strangers.

    Contract: a script reaches nothing but its Bridge, holds up no other, and is gone when `run`
    ends, whatever it does. Cancelling `run` ends it within 50 ms.
    """

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        """Enter the script from its top; returns its output, which is JSON.

        Raises ScriptError, ScriptLoadError, ToolTimeout, OutOfMemory, OutputTooLarge, the CallError
        of an uncaught FloError, and the Signal that a host call met when nothing else can move.
        """
        ...

    def engine_for(self, wish: str | None) -> str:
        """Return the name of the engine that runs a script with this wish, or with none."""
        ...

    async def close(self) -> None:
        """End whatever still runs."""
        ...
