"""The host of one script; the test makes the host calls of the script."""

from collections.abc import Awaitable, Mapping
from typing import Any

from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.events.events import NoteEmitted
from penstock.core.scopes import Scope, ScopeKind
from penstock.manifest.bindings import StateBinding, VaultKey
from penstock.resources.egress import Egress
from penstock.sandbox.bridge import HostCallResult
from penstock.testing.invocation import Workbench, open_workbench
from penstock.testing.resources import MemoryVault
from penstock.tools.policy import SCRIPT
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.script import bridge_of
from tests.kit.tools import Act, Deed, nothing_much

BINDINGS = Bindings(
    vault=[VaultKey(key="token", scope_kinds=frozenset({"profile", "shared"}))],
    state=[
        StateBinding(name="mine", key_prefix="mine.", scope_kind="session"),
        StateBinding(name="all", key_prefix="all.", scope_kind="shared", scope_id="team"),
    ],
    runtime_config={"region": "north"},
)


class Asking:
    """One entry of a script that a test plays."""

    def __init__(self, bench: Workbench, tool: Act, bindings: Bindings) -> None:
        self.bench = bench
        self.tool = tool
        self.bindings = bindings
        self.version = "1"
        self.begin()

    def begin(self, attempt: int = 1) -> None:
        """Enter the script, for the first time or again."""
        self.bench.enter()
        self.invocation = self.bench.invocation(self.tool)
        self.invocation.attempt = attempt
        self.host = bridge_of(self.invocation, self.bindings, self.version)

    async def ask(self, name: str, arguments: Any) -> HostCallResult:
        """Return how a host call settles."""
        answer = self.host.ask(name, arguments)
        return await answer if isinstance(answer, Awaitable) else answer

    async def value(self, name: str, **arguments: Any) -> Any:
        """Return what a host call gives."""
        settled = await self.ask(name, arguments)
        assert settled.refusal is None, settled.refusal
        return settled.value

    async def refusal(self, name: str, arguments: Any) -> str:
        """Return how a host call is refused: the name or the code of the error."""
        settled = await self.ask(name, arguments)
        assert settled.refusal is not None, settled.value
        error = settled.refusal
        return error.detail.code if error.name == "FloError" else error.name

    async def notes(self, event_type: str) -> list[str | None]:
        """Return the messages of the events of this type."""
        events = await self.bench.events()
        notes = [each for each in events if isinstance(each, NoteEmitted)]
        return [each.message for each in notes if each.event_type == event_type]


async def asking(
    *acts: Act,
    bindings: Bindings = BINDINGS,
    egress: Egress | None = None,
    secrets: Mapping[str, str] = {"token": "s3cr3t-value"},
    deed: Deed = nothing_much,
    **spec: Any,
) -> Asking:
    """Return a script's host, with a vault that holds one secret."""
    fields: dict[str, Any] = {"effect": Effect.WRITE, "kind": SCRIPT, "is_frame": True}
    tool = Act("script", deed, **(fields | spec))
    opened = [replace_spec(each) for each in acts]
    bench = await open_workbench(tool, *opened)
    vault = MemoryVault(bench.world.clock)
    for key, value in secrets.items():
        await vault.set(Scope(ScopeKind.PROFILE, bench.model.profile.profile_id), key, value)
    bench.resources = replace(bench.resources, vault=vault, egress=egress)
    return Asking(bench, tool, bindings)


def replace_spec(act: Act) -> Act:
    """Return the tool, in reach of every script."""
    act.spec = replace(act.spec, direct_call=True)
    return act
