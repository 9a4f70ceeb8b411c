"""`flo.vault`: secrets that a manifest declares, as text or as handles."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from penstock.core.call_errors import CallError
from penstock.core.state import Scope, ScopeKind
from penstock.manifest.bindings import VaultKey
from penstock.resources.handles import SecretHandles
from penstock.resources.redact import Redactor
from penstock.resources.vault import Vault, permit_secret
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.given_secrets import note_given
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.arguments import text
from penstock.tools.scripts.host import Answer
from penstock.tools.scripts.recording import Recording, refused


class VaultAccess(Struct, frozen=True, kw_only=True):
    """The vault, and what of it a tool may reach."""

    vault: Vault
    declared: Sequence[VaultKey]
    secrets: Redactor
    handles: SecretHandles


class VaultCalls:
    """`vault.get` and `vault.handle`: the names are recorded alone, so each entry asks again."""

    def __init__(self, invocation: Invocation, recording: Recording, access: VaultAccess) -> None:
        self._invocation = invocation
        self._recording = recording
        self._access = access

    def get(self, arguments: Any) -> Answer:
        """Return the secret; from now on it is taken out of everything that is shown."""
        return self._given(self._scope(arguments), text(arguments, "key"), is_handle=False)

    def handle(self, arguments: Any) -> Answer:
        """Return a placeholder for the secret, which only `fetch` replaces."""
        return self._given(self._scope(arguments), text(arguments, "key"), is_handle=True)

    async def _given(self, scope: Scope, key: str, *, is_handle: bool) -> HostCallResult:
        try:
            permit_secret(self._invocation.spec.tool_id, self._access.declared, scope.kind, key)
            value = await self._access.vault.get(scope, key)
        except CallError as error:
            return refused(error, self._recording.now())
        # Before the script gets it: whatever it prints or returns next is redacted.
        note_given(self._invocation.ledger, self._invocation.call.path, scope, key)
        self._access.secrets.add(key, value)
        if is_handle:
            return self._recording.fresh({"placeholder": self._access.handles.new(key, value)})
        return self._recording.fresh(value)

    def _scope(self, arguments: Any) -> Scope:
        match arguments.get("scope"):
            case "profile":
                return Scope(ScopeKind.PROFILE, self._invocation.caller.profile.profile_id)
            case "shared":
                return Scope(ScopeKind.SHARED, text(arguments, "scope_id"))
            case found:
                raise TypeError(f"scope must be profile or shared, found {found!r:.80}")
