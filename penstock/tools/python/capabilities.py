"""What a Python tool reaches beyond its task: kept values, files and secrets."""

from hashlib import blake2b
from typing import Any

from penstock.core.call import Effect
from penstock.core.call_errors import StateDenied, ToolFailed, ToolNotConfigured, VaultNotFound
from penstock.core.envelope import Envelope, Json
from penstock.core.events.events import CallSettled
from penstock.core.state import (
    Change,
    FileChanges,
    Scope,
    ScopeKind,
    StateChange,
    StateVerb,
    parse_path,
)
from penstock.resources.state import State
from penstock.tools.given_secrets import note_given
from penstock.tools.invocation import Invocation
from penstock.tools.results.outputs import given_json, own_copy
from penstock.tools.results.redaction import check_key
from penstock.tools.state import (
    ALWAYS,
    AnyRevision,
    IfRevision,
    StateWrite,
    check_state_key,
    check_ttl,
)


class KeptState:
    """A tool's values of a conversation or a profile, under its own keys.

    Reads and writes are recorded: a function that runs again reads the same values, and writes
    nothing twice.
    """

    __slots__ = ("_invocation", "_scope")

    def __init__(self, invocation: Invocation, scope: Scope) -> None:
        self._invocation = invocation
        self._scope = scope

    async def get(self, key: str, default: Any = None) -> Any:
        """Return the value, or `default` if there is none or it has expired.

        Args:
            key: 1 to 256 characters.
            default: What to return instead.

        Raises:
            ValueError: The key is empty or too long.
        """
        check_state_key(key)
        name, state = f"state.{self._scope.kind}.get", self._state
        path = self._invocation.place(name, {"key": key}, Effect.READ)
        settled = self._invocation.ledger.find(path)
        if settled is None:
            entry = await state.find(self._scope, self._own(key))
            # The call may have ended while the database was read: it must not record any more.
            self._invocation.check_running()
            found = [] if entry is None else [entry.value]
            settled = self._invocation.record(path, name, Envelope.success(found))
        found = settled.envelope.output
        return own_copy(found[0]) if found else default

    async def put(
        self, key: str, value: Any, ttl: float | None = None, *, if_revision: IfRevision = ALWAYS
    ) -> StateWrite:
        """Store a value for `ttl` seconds, or without a limit; None removes it.

        Args:
            key: 1 to 256 characters.
            value: JSON.
            ttl: Seconds until it expires, 1 to a year; None means never.
            if_revision: Store it only over this revision, or with None only if there is no value.

        Returns:
            Whether it was stored, and the revision that is there now.

        Raises:
            ValueError: The key or the time is out of bounds.
            TypeError: The value is no JSON.
            StateDenied: The key or the value contains a secret.
            ToolFailed: The value is too large.
        """
        check_state_key(key)
        check_ttl(ttl)
        invocation, _ = self._invocation, self._state
        value = given_json(value, invocation.inside.world.limits.json_depth, "the value")
        check_key(secrets := invocation.caller.secrets, key)
        if secrets.holds_secret(value):
            raise StateDenied("secrets belong in the vault")
        expected = () if isinstance(if_revision, AnyRevision) else (if_revision,)
        change = StateChange(
            verb=StateVerb.DELETE if value is None else StateVerb.PUT,
            scope=self._scope,
            key=self._own(key),
            revision=invocation.inside.world.new_id("rev"),
            value=value,
            expected=expected,
            ttl_seconds=None if ttl is None or value is None else round(ttl),
        )
        shape = {"key": key, "value": value, "ttl": ttl, "if_revision": list(expected)}
        made = await _once(invocation, f"state.{self._scope.kind}.put", shape, change)
        entry = made.get("entry") or {}
        return StateWrite(made["ok"], entry.get("revision") or made.get("conflict_revision"))

    def _own(self, key: str) -> str:
        return f"{self._invocation.spec.tool_id}/{key}"

    @property
    def _state(self) -> State:
        state = self._invocation.inside.resources.state
        if state is None:
            raise ToolNotConfigured("no values are kept here beyond a task")
        return state


class ToolFiles:
    """The files of the task and of its conversation, by `task://` and `session://`."""

    __slots__ = ("_invocation",)

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    async def read(self, uri: str) -> bytes:
        """Return the current contents of a file.

        Args:
            uri: `task://PATH` or `session://PATH`.

        Raises:
            ValueError: The address is malformed.
            ToolFailed: There is no such file, or it is over `limits.read_bytes`.
        """
        self._invocation.check_running()
        most = self._invocation.inside.world.limits.read_bytes
        return await self._invocation.workspace.read(parse_path(uri), most=most)

    async def write(self, uri: str, data: bytes) -> None:
        """Write a file, once even if the function runs again.

        Args:
            uri: `task://PATH` or `session://PATH`. A file that is there is replaced.
            data: Its new contents.

        Raises:
            TypeError: The data is not `bytes`.
            ValueError: The address is malformed.
            ToolFailed: The file or all files together are over a limit.
        """
        if not isinstance(data, bytes):
            raise TypeError(f"data must be bytes, not {type(data).__name__}")
        change = await self._invocation.workspace.write(parse_path(uri), data)
        shape = {"uri": uri, "bytes": blake2b(data, digest_size=16).hexdigest()}
        await _once(self._invocation, "workspace.write", shape, FileChanges(files=(change,)))


async def secret_of(invocation: Invocation, key: str, shared: str | None) -> str:
    """Return a secret. From now on it is redacted in all records of the task."""
    vault = invocation.inside.resources.vault
    if vault is None:
        raise ToolNotConfigured("no secrets are kept here")
    scope = Scope(ScopeKind.PROFILE, invocation.caller.profile.profile_id)
    if shared is not None:
        scope = Scope(ScopeKind.SHARED, shared)
    try:
        value = await vault.get(scope, key)
    except VaultNotFound:
        found = [each for each in await vault.notes() if each.key == key]
        of_all = [each.scope for each in found if each.scope.kind is ScopeKind.SHARED]
        if shared is not None or len(of_all) != 1:
            raise
        scope = of_all[0]
        value = await vault.get(scope, key)
    # Recorded and known to the redactor before the tool gets it, so no record can contain it.
    invocation.check_running()
    note_given(invocation.ledger, invocation.call.path, scope, key)
    invocation.caller.secrets.add(key, value)
    return value


async def _once(invocation: Invocation, name: str, shape: Json, change: Change) -> Json:
    """Make a change exactly once, in the transaction that records it."""
    path = invocation.place(name, shape, Effect.WRITE)
    settled = invocation.ledger.find(path)
    if settled is None:
        done = CallSettled(tool_id=name, envelope=Envelope.success(None), ran=False)
        settled = await invocation.ledger.change(path, done, change)
    if (error := settled.envelope.error) is not None:
        raise ToolFailed(error.message, details=error.details)
    made: Json = settled.envelope.output or {}
    return made
