"""A tool that is a script of its author: run in the sandbox, seen through its bindings."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from penstock.core.call_errors import CallError, ScriptLoadError
from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json
from penstock.sandbox.script import Bounds, Sandbox, Script
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.bridge import bridge_of
from penstock.tools.spec import ToolSpec

VERSION_CHARACTERS = 16
"""Of a script's digest: with the engine it tells whether a script changed between two entries."""


class ScriptTool:
    """A manifest tool. Each call is entered from the top, in a sandbox of its own."""

    def __init__(
        self,
        spec: ToolSpec,
        script: Script | Sequence[Diagnostic],
        *,
        bindings: Bindings,
        sandbox: Sandbox,
    ) -> None:
        self.spec = spec
        self._script = script
        self._bindings = bindings
        self._sandbox = sandbox

    @property
    def modules(self) -> tuple[str, ...]:
        """The files it is made of, by name; none of a broken one."""
        return tuple(self._script.modules) if isinstance(self._script, Script) else ()

    def with_context(self, context: Json) -> "ScriptTool":
        """Return the tool, with more in what `flo.task.getContext` tells its script."""
        bindings = replace(self._bindings, context=context)
        return ScriptTool(self.spec, self._script, bindings=bindings, sandbox=self._sandbox)

    def preview(self, output: Any) -> str | None:
        """Leave it to the usual one."""
        return None

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return what the script returns. Raises ScriptLoadError when the tool is broken."""
        script = self._script
        if not isinstance(script, Script):
            found = [each.to_wire() for each in script]
            said = f'"{self.spec.tool_id}" is broken: {script[0]}'
            raise ScriptLoadError(said, details={"diagnostics": found})
        version = f"{script.digest[:VERSION_CHARACTERS]} {self._sandbox.engine_for(script.engine)}"
        host = bridge_of(invocation, self._bindings, version)
        try:
            output = await self._sandbox.run(script, input, host, self._bounds(invocation))
        except CallError:
            host.end(returned=False)
            raise
        finally:
            host.close()
        host.end(returned=True)
        return output

    def _bounds(self, invocation: Invocation) -> Bounds:
        world, bindings = invocation.inside.world, self._bindings
        limits = world.limits
        return Bounds(
            seconds=max(invocation.deadline - world.clock.monotonic(), 0),
            cpu_ms=limits.script_cpu_ms,
            spent_ms=invocation.ledger.computed_ms(invocation.call.path, invocation.attempt),
            memory_mb=bindings.memory_mb or limits.script_memory_mb,
            stack_kb=limits.script_stack_kb,
            host_calls=limits.host_calls,
            output_bytes=limits.script_output_bytes,
            json_depth=limits.json_depth,
            message_bytes=limits.message_bytes,
            log_bytes=limits.log_bytes if bindings.log_bytes is None else bindings.log_bytes,
            log_lines=limits.log_lines,
            log_line_bytes=limits.log_line_bytes,
            timers=limits.timers,
        )
