"""A tool that is a script of its author: run in the sandbox, limited to its bindings.

`bridge_of` builds the table of host calls for one entry. A call is in the table only if its
resource is set up, and it reaches only what the manifest declares. Proof:
tests/tools/scripts/test_script.py.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import count
from typing import Any

from msgspec.structs import replace

from penstock.core.call_errors import CallError, ScriptLoadError
from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.limits import KIB, MIB
from penstock.resources.egress import EgressCaller
from penstock.resources.vault import SecretHandles
from penstock.sandbox.script import Bounds, Sandbox, Script
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.host import Host, HostCall
from penstock.tools.scripts.host_calls import ToolCalls
from penstock.tools.scripts.host_children import ChildCalls
from penstock.tools.scripts.host_dispatcher import DispatcherCalls
from penstock.tools.scripts.host_fetch import FetchCalls, NetAccess
from penstock.tools.scripts.host_resources import (
    FileCalls,
    StateAccess,
    StateCalls,
    VaultAccess,
    VaultCalls,
)
from penstock.tools.scripts.host_steps import StepCalls
from penstock.tools.scripts.host_subagents import SubagentCalls
from penstock.tools.scripts.host_task import (
    ConfigCalls,
    ContextCalls,
    NoteCalls,
    PersonCalls,
    ValueCalls,
)
from penstock.tools.scripts.recording import Recording
from penstock.tools.spec import ToolSpec

STACK_KB = 200
"""Stack of a script, in KiB."""
TIMERS = 1000
"""Most timers that exist at once."""
LOG_LINE_BYTES = 8 * KIB
"""Most bytes of a printed line; a longer one is cut."""
LOG_LINES = 2000
"""Most lines that one call prints; the rest are dropped."""
MESSAGE_BYTES = 8 * MIB
"""Most bytes of the arguments of one host call, as JSON."""
VERSION_CHARACTERS = 16
"""Characters of a script's digest that its entries record, to detect a change between two."""


class ScriptTool:
    """A manifest tool. Each entry of a call runs the script from its first line."""

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
        """The names of its modules; empty if the tool is broken."""
        return tuple(self._script.modules) if isinstance(self._script, Script) else ()

    def with_context(self, context: Json) -> "ScriptTool":
        """Return a copy of the tool with these additional members of `flo.task.getContext`."""
        bindings = replace(self._bindings, context=context)
        return ScriptTool(self.spec, self._script, bindings=bindings, sandbox=self._sandbox)

    def preview(self, output: Any) -> str | None:
        """Return None: the default preview applies."""
        return None

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Run the script; return its output. Raises ScriptLoadError if the tool is broken."""
        script = self._script
        if not isinstance(script, Script):
            message = f'"{self.spec.tool_id}" is broken: {script[0]}'
            diagnostics = [problem.to_wire() for problem in script]
            raise ScriptLoadError(message, details={"diagnostics": diagnostics})
        version = f"{script.digest[:VERSION_CHARACTERS]} {self._sandbox.engine_for(script.engine)}"
        host = bridge_of(invocation, self._bindings, version)
        try:
            output = await self._sandbox.run(script, input, host, self._bounds(invocation))
        # Not for signals: a suspended script continues in its next entry.
        except CallError:
            host.end(returned=False)
            raise
        finally:
            host.close()
        host.end(returned=True)
        return output

    def _bounds(self, invocation: Invocation) -> Bounds:
        world, bindings = invocation.edition.world, self._bindings
        limits = world.limits
        return Bounds(
            seconds=max(invocation.deadline - world.clock.monotonic(), 0),
            cpu_ms=limits.script_cpu_ms,
            spent_ms=invocation.ledger.computed_ms(invocation.call.path, invocation.attempt),
            memory_mb=bindings.memory_mb or limits.script_memory_mb,
            stack_kb=STACK_KB,
            host_calls=limits.host_calls,
            output_bytes=limits.script_output_bytes,
            json_depth=JSON_DEPTH,
            message_bytes=MESSAGE_BYTES,
            log_bytes=limits.log_bytes if bindings.log_bytes is None else bindings.log_bytes,
            log_lines=LOG_LINES,
            log_line_bytes=LOG_LINE_BYTES,
            timers=TIMERS,
        )


def bridge_of(invocation: Invocation, bindings: Bindings, version: str = "") -> Host:
    """Return the host of one entry. `version` identifies the script and its engine."""
    recording = Recording(invocation, version)
    calls = ToolCalls(invocation, recording, nested_calls=bindings.nested_calls)
    steps = StepCalls(invocation, recording)
    table = _task_calls(invocation, recording, bindings)
    table |= {"callTool": calls.call_tool, "sleep": calls.sleep, "timer": calls.timer}
    table |= {"task.step.start": steps.start, "task.step.settle": steps.settle}
    table["getRuntimeConfig"] = ConfigCalls(recording, bindings.runtime_config).get
    table |= _resource_calls(invocation, recording, bindings)
    return Host(invocation, recording, table, close=steps.close)


def _task_calls(
    invocation: Invocation, recording: Recording, bindings: Bindings
) -> dict[str, HostCall]:
    values = ValueCalls(invocation, recording)
    around = ContextCalls(invocation, recording, extra=bindings.context)
    children = ChildCalls(invocation, recording)
    notes, person = NoteCalls(invocation, recording), PersonCalls(invocation, recording)
    return {
        "task.getState": values.get_shared,
        "task.putState": values.put_shared,
        "task.getToolState": values.get_own,
        "task.putToolState": values.put_own,
        "task.getContext": around.context,
        "task.getProfile": around.profile,
        "task.emitEvent": notes.emit,
        "task.waitForUserMessage": person.wait,
        "task.runSubagent": SubagentCalls(invocation, recording).run,
        "task.spawn": children.spawn,
        "task.spawnChildren": children.spawn_children,
        "task.waitForBatch": children.wait_for_batch,
        "task.getBatchResults": children.batch_results,
        "task.waitForDependencies": children.wait_for_dependencies,
        "task.cancel": children.cancel,
    }


def _resource_calls(
    invocation: Invocation, recording: Recording, bindings: Bindings
) -> dict[str, HostCall]:
    """Return the calls whose resources are set up."""
    resources, secrets = invocation.edition.resources, invocation.caller.secrets
    handles = SecretHandles(_handle_bytes(invocation))
    table: dict[str, HostCall] = {}
    if resources.vault is not None:
        reach = VaultAccess(
            vault=resources.vault, declared=bindings.vault, secrets=secrets, handles=handles
        )
        vault = VaultCalls(invocation, recording, reach)
        table |= {"vault.get": vault.get, "vault.handle": vault.handle}
    if resources.state is not None:
        access = StateAccess(state=resources.state, declared=bindings.state, secrets=secrets)
        state = StateCalls(invocation, recording, access)
        table |= {
            "state.get": state.get,
            "state.list": state.list,
            "state.put": state.put,
            "state.patch": state.patch,
            "state.append": state.append,
            "state.delete": state.delete,
        }
        table |= DispatcherCalls(invocation, recording).table()
    if resources.files is not None:
        table["fs.readBytes"] = FileCalls(invocation, recording).read_bytes
    if resources.egress is not None:
        tool_id = invocation.spec.tool_id
        asker = EgressCaller(tool_id=tool_id, egress=bindings.egress, handles=handles)
        net = NetAccess(egress=resources.egress, asker=asker, secrets=secrets)
        table["fetch"] = FetchCalls(invocation, recording, net).fetch
    return table


def _handle_bytes(invocation: Invocation) -> Callable[[], bytes]:
    """Return a source of bytes for handles: secret, and the same in each entry."""
    seed, number = invocation.ledger.seed(invocation.call.path), count()

    def next_bytes() -> bytes:
        return blake2b(f"handle {next(number)}".encode(), digest_size=32, key=seed).digest()

    return next_bytes
