"""The calls that reach resources: `flo.vault`, `flo.state` and `flo.fs`.

Each call checks that the manifest declares what it asks for. A secret is never recorded, only its
name: each entry reads it again, and from then on it is redacted wherever it appears. A change of a
durable value is made in the transaction that records it, so it happens exactly once. A read is
recorded, so that a later entry sees the same value. Proof:
tests/tools/scripts/test_host_resources.py.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from penstock.core.call import CallPath, Effect
from penstock.core.call_errors import CallError, StateDenied
from penstock.core.scopes import FilePath, Scope, ScopeKind, parse_path
from penstock.core.stored.changes import StateChange, StateVerb
from penstock.manifest.bindings import StateBinding, VaultKey
from penstock.resources.redact import Redactor
from penstock.resources.state import (
    State,
    entry_to_wire,
    read_change,
    read_key,
    read_limit,
    result_of,
)
from penstock.resources.vault import SecretHandles, Vault, permit_secret
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.invocation import Invocation
from penstock.tools.redaction import check_key, check_value, note_given
from penstock.tools.scripts.arguments import optional_text, text
from penstock.tools.scripts.host import Answer
from penstock.tools.scripts.recording import Recording, refusal_of, refused

READ = "fs.readBytes"


class VaultAccess(Struct, frozen=True, kw_only=True):
    """The vault, and the keys that a manifest declares."""

    vault: Vault
    declared: Sequence[VaultKey]
    secrets: Redactor
    handles: SecretHandles


class VaultCalls:
    """`vault.get` and `vault.handle`. Each entry reads the secret again."""

    def __init__(self, invocation: Invocation, recording: Recording, access: VaultAccess) -> None:
        self._invocation = invocation
        self._recording = recording
        self._access = access

    def get(self, arguments: Any) -> Answer:
        """Return the secret. It is redacted from now on."""
        return self._given(self._scope(arguments), text(arguments, "key"), is_handle=False)

    def handle(self, arguments: Any) -> Answer:
        """Return a placeholder for the secret; only `fetch` replaces it by the secret."""
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
            case scope:
                raise TypeError(f"scope must be profile or shared, found {scope!r:.80}")


class StateAccess(Struct, frozen=True, kw_only=True):
    """The store of values, and the prefixes that a manifest declares."""

    state: State
    declared: Sequence[StateBinding]
    secrets: Redactor


class StateCalls:
    """`state.get`, `state.list`, `state.put`, `state.patch`, `state.append`, `state.delete`."""

    def __init__(self, invocation: Invocation, recording: Recording, access: StateAccess) -> None:
        self._invocation = invocation
        self._recording = recording
        self._access = access
        self._limits = invocation.edition.world.limits

    def get(self, arguments: Any) -> Answer:
        """Return a value with its revision."""
        scope = self._scope(arguments, key := read_key(arguments))
        path = self._recording.place("state.get", arguments, Effect.READ)
        return self._recording.find(path) or self._recording.live(path, self._got(path, scope, key))

    def list(self, arguments: Any) -> Answer:
        """Return one page of the values whose keys begin with a prefix."""
        prefix = read_key(arguments, "key_prefix")
        scope, limit = self._scope(arguments, prefix), read_limit(arguments)
        cursor = optional_text(arguments, "cursor") or ""
        path = self._recording.place("state.list", arguments, Effect.READ)
        if (recorded := self._recording.find(path)) is not None:
            return recorded

        async def listed() -> HostCallResult:
            page = await self._access.state.page(scope, prefix, limit=limit, cursor=cursor)
            result: dict[str, Any] = {"entries": [entry_to_wire(entry) for entry in page.entries]}
            if page.next_cursor is not None:
                result["next_cursor"] = page.next_cursor
            return self._recording.settle_read(path, "state.list", result)

        return self._recording.live(path, listed())

    def put(self, arguments: Any) -> Answer:
        """Store a value."""
        return self._change(StateVerb.PUT, arguments)

    def patch(self, arguments: Any) -> Answer:
        """Merge into a value (RFC 7386)."""
        return self._change(StateVerb.PATCH, arguments)

    def append(self, arguments: Any) -> Answer:
        """Add an item to an array."""
        return self._change(StateVerb.APPEND, arguments)

    def delete(self, arguments: Any) -> Answer:
        """Remove a value."""
        return self._change(StateVerb.DELETE, arguments)

    async def _got(self, path: CallPath, scope: Scope, key: str) -> HostCallResult:
        entry = await self._access.state.find(scope, key)
        value = None if entry is None else entry_to_wire(entry)
        return self._recording.settle_read(path, "state.get", value)

    def _change(self, verb: StateVerb, arguments: Any) -> Answer:
        scope = self._scope(arguments, read_key(arguments))
        # The host chooses the revision: it is part of the record, so a replay returns the same.
        revision = self._invocation.edition.world.new_id("rev")
        change = read_change(verb, scope, arguments, revision)
        if verb is not StateVerb.DELETE:
            check_key(self._access.secrets, change.key)
        check_value(self._access.secrets, change.value)
        name = f"state.{verb}"
        path = self._recording.place(name, arguments, Effect.WRITE)
        outcome = self._recording.outcome(path)
        if outcome is None:
            return self._recording.live(path, self._changed(path, name, change))
        if outcome.error is not None:
            return self._recording.recorded(path, refusal=refusal_of(outcome.error))
        return self._recording.recorded(path, result_of(change, outcome.output))

    async def _changed(self, path: CallPath, name: str, change: StateChange) -> HostCallResult:
        """Make the change in the transaction that records it: exactly once."""
        settled = await self._recording.change(path, name, change)
        if settled.refusal is not None:
            return settled
        return HostCallResult(value=result_of(change, settled.value), at_ms=settled.at_ms)

    def _scope(self, arguments: Any, key: str) -> Scope:
        """Return the scope of a key. Raises StateDenied if no binding covers it."""
        kind = text(arguments, "scope_kind")
        for binding in self._access.declared:
            if binding.scope_kind == kind and key.startswith(binding.key_prefix):
                return self._owner(ScopeKind(kind), binding)
        tool_id = self._invocation.spec.tool_id
        raise StateDenied(f'"{tool_id}" declares no {kind} state that covers "{key}"')

    def _owner(self, kind: ScopeKind, binding: StateBinding) -> Scope:
        ledger, profile = self._invocation.ledger, self._invocation.caller.profile
        owners = {
            ScopeKind.PROFILE: profile.profile_id,
            ScopeKind.SESSION: ledger.held.state.session_id,
            ScopeKind.TASK: ledger.task.task_id,
        }
        return Scope(kind, owners.get(kind) or binding.scope_id or "")


class FileCalls:
    """`fs.readBytes`."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording

    def read_bytes(self, arguments: Any) -> Answer:
        """Return the content of a file, at most `limits.read_bytes`."""
        uri = text(arguments, "path")
        try:
            file = parse_path(uri)
        except ValueError as error:
            raise TypeError(str(error)) from None
        path = self._recording.place(READ, uri, Effect.READ)
        recorded = self._recording.find(path, has_bytes=True)
        return recorded or self._recording.live(path, self._read(path, file))

    async def _read(self, path: CallPath, file: FilePath) -> HostCallResult:
        most = self._invocation.edition.world.limits.read_bytes
        try:
            content = await self._invocation.workspace.read(file, most=most)
        except CallError as error:
            return self._recording.refuse(path, READ, error)
        return self._recording.settle_read(path, READ, content)
