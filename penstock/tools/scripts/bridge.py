"""The Bridge of one entry: every host call by its name, bound to what the manifest declares."""

from collections.abc import Callable
from hashlib import blake2b
from itertools import count

from penstock.resources.egress import EgressCaller
from penstock.resources.handles import SecretHandles
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.host import Host, HostCall
from penstock.tools.scripts.host_calls import ToolCalls
from penstock.tools.scripts.host_fetch import FetchCalls, NetAccess
from penstock.tools.scripts.host_files import FileCalls
from penstock.tools.scripts.host_person import ContextCalls, PersonCalls
from penstock.tools.scripts.host_state import StateAccess, StateCalls
from penstock.tools.scripts.host_steps import StepCalls
from penstock.tools.scripts.host_task import ConfigCalls, NoteCalls, ValueCalls
from penstock.tools.scripts.host_vault import VaultAccess, VaultCalls
from penstock.tools.scripts.recording import Recording


def bridge_of(invocation: Invocation, bindings: Bindings, version: str = "") -> Host:
    """Return what a script may ask in this entry of its call; `version` names its modules."""
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
    }


def _resource_calls(
    invocation: Invocation, recording: Recording, bindings: Bindings
) -> dict[str, HostCall]:
    """Return the calls that reach what is set up here."""
    resources, secrets = invocation.inside.resources, invocation.caller.secrets
    handles = SecretHandles(_chance(invocation))
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
    if resources.files is not None:
        table["fs.readBytes"] = FileCalls(invocation, recording).read_bytes
    if resources.egress is not None:
        tool_id = invocation.spec.tool_id
        asker = EgressCaller(tool_id=tool_id, egress=bindings.egress, handles=handles)
        net = NetAccess(egress=resources.egress, asker=asker, secrets=secrets)
        table["fetch"] = FetchCalls(invocation, recording, net).fetch
    return table


def _chance(invocation: Invocation) -> Callable[[], bytes]:
    """Return a source of bytes for handles: secret, and equal in each entry."""
    seed, number = invocation.ledger.seed(invocation.call.path), count()

    def next_chance() -> bytes:
        return blake2b(f"handle {next(number)}".encode(), digest_size=32, key=seed).digest()

    return next_chance
