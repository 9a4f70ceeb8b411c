"""A tool that is a script of its author: run in the sandbox, seen through its bindings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from penstock.core.call_errors import ScriptLoadError
from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json
from penstock.sandbox.script import Bounds, Sandbox, Script
from penstock.tools.host import Host, HostCall
from penstock.tools.host_calls import Calls
from penstock.tools.host_person import Person, Surroundings
from penstock.tools.host_steps import Steps
from penstock.tools.host_task import Config, Notes, Values
from penstock.tools.invocation import Invocation
from penstock.tools.recording import Recording
from penstock.tools.spec import ToolSpec

LOG_BYTES = 262_144


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """What a manifest declares of the world around its script."""

    memory_mb: int | None = None
    log_bytes: int = LOG_BYTES
    runtime_config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


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
        host = _host(invocation, self._bindings)
        return await self._sandbox.run(script, input, host, self._bounds(invocation))

    def _bounds(self, invocation: Invocation) -> Bounds:
        world, bindings = invocation.inside.world, self._bindings
        limits = world.limits
        return Bounds(
            seconds=max(invocation.deadline - world.clock.monotonic(), 0),
            cpu_ms=limits.script_cpu_ms,
            memory_mb=bindings.memory_mb or limits.script_memory_mb,
            stack_kb=limits.script_stack_kb,
            host_calls=limits.host_calls,
            output_bytes=limits.script_output_bytes,
            json_depth=limits.json_depth,
            log_bytes=bindings.log_bytes,
        )


def _host(invocation: Invocation, bindings: Bindings) -> Host:
    """Return the Bridge of one entry."""
    recording = Recording(invocation)
    calls, values = Calls(invocation, recording), Values(invocation, recording)
    steps, around = Steps(invocation, recording), Surroundings(invocation, recording)
    notes, person = Notes(invocation, recording), Person(invocation, recording)
    table: dict[str, HostCall] = {
        "callTool": calls.call_tool,
        "sleep": calls.sleep,
        "timer": calls.timer,
        "task.getState": values.get_shared,
        "task.putState": values.put_shared,
        "task.getToolState": values.get_own,
        "task.putToolState": values.put_own,
        "task.getContext": around.context,
        "task.getProfile": around.profile,
        "task.emitEvent": notes.emit,
        "task.waitForUserMessage": person.wait,
        "task.step.start": steps.start,
        "task.step.settle": steps.settle,
        "getRuntimeConfig": Config(recording, bindings.runtime_config).get,
    }
    return Host(invocation, recording, table)
