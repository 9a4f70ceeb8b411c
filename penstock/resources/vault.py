"""Secrets by key, of a profile or shared. Only a tool that declares a key can read it."""

import re
from collections.abc import Sequence
from shlex import quote
from typing import Protocol

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, and_, select

from penstock.core.call_errors import VaultDenied, VaultNotFound
from penstock.core.clock import Clock, Moment
from penstock.core.errors import ConfigError, InvalidRequest
from penstock.core.limits import Limits
from penstock.core.profile import LOCAL
from penstock.core.state import Scope, ScopeKind
from penstock.manifest.bindings import VaultKey
from penstock.resources.cipher import Cipher, Sealed
from penstock.resources.redact import LEAST_BYTES
from penstock.store.changes import of_scope
from penstock.store.database import Database
from penstock.store.tables import secrets

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_SCOPE_ID = re.compile(r"[^\x00-\x1f]{1,512}")
_KINDS = {ScopeKind.PROFILE, ScopeKind.SHARED}


class SecretListing(Struct, frozen=True, kw_only=True):
    """A secret without its value."""

    scope: Scope
    key: str
    updated_at: Moment


class Vault(Protocol):
    """The secrets of profiles, and those that are shared.

    Contract: a change is on disk when its method returns. Only `get` returns a value, and no error
    contains one. A row that is copied to another scope or key cannot be opened there.
    """

    async def set(self, scope: Scope, key: str, value: str) -> None:
        """Store a secret, or replace it. Raises InvalidRequest."""
        ...

    async def get(self, scope: Scope, key: str) -> str:
        """Return a secret. Raises VaultNotFound."""
        ...

    async def notes(self, scope: Scope | None = None) -> Sequence[SecretListing]:
        """List the secrets of one scope, or of all, ordered by scope and key."""
        ...

    async def delete(self, scope: Scope, key: str) -> bool:
        """Remove a secret; returns whether it existed."""
        ...

    async def rotate(self) -> int:
        """Encrypt all with the first key, or none; returns how many. Raises ConfigError."""
        ...


class SqlVault:
    """Secrets in the table of that name."""

    def __init__(self, database: Database, cipher: Cipher, clock: Clock) -> None:
        self._database = database
        self._cipher = cipher
        self._clock = clock

    async def set(self, scope: Scope, key: str, value: str) -> None:
        """Store a secret, or replace it."""
        check_secret(scope, key, value, self._database.limits)
        sealed = self._cipher.seal(value, scope, key)
        made = {"key_id": sealed.key_id, "sealed": sealed.sealed, "updated_at": self._clock.now()}
        here = _is(scope, key)
        place = {"kind": scope.kind.value, "scope_id": scope.id, "key": key}

        def unit(connection: Connection) -> None:
            if not connection.execute(secrets.update().where(here).values(made)).rowcount:
                connection.execute(secrets.insert().values({**place, **made}))

        await self._database.write(unit)

    async def get(self, scope: Scope, key: str) -> str:
        """Return a secret."""
        if not _may_be(scope, key):
            raise not_there(scope, key)
        wanted = select(secrets).where(_is(scope, key))
        row = await self._database.read(lambda each: each.execute(wanted).first())
        if row is None:
            raise not_there(scope, key)
        value = self._cipher.open(Sealed(row.key_id, bytes(row.sealed)), scope, key)
        if value is None:
            raise VaultNotFound(f"the secret {key!r} of {scope} cannot be opened: set it again")
        return value

    async def notes(self, scope: Scope | None = None) -> Sequence[SecretListing]:
        """List the secrets."""
        wanted = select(secrets.c.kind, secrets.c.scope_id, secrets.c.key, secrets.c.updated_at)
        if scope is not None:
            if not _may_be(scope):
                return []
            wanted = wanted.where(of_scope(secrets, scope))
        rows = await self._database.read(lambda each: each.execute(wanted).all())
        found = [
            SecretListing(
                scope=Scope(ScopeKind(row.kind), row.scope_id),
                key=row.key,
                updated_at=row.updated_at,
            )
            for row in rows
        ]
        return sorted(found, key=by_place)

    async def delete(self, scope: Scope, key: str) -> bool:
        """Remove a secret."""
        if not _may_be(scope, key):
            return False
        gone = secrets.delete().where(_is(scope, key))
        return bool(await self._database.write(lambda each: each.execute(gone).rowcount))

    async def rotate(self) -> int:
        """Encrypt all secrets with the first key, or none."""
        return await self._database.write(self._seal_again)

    def _seal_again(self, connection: Connection) -> int:
        rows = connection.execute(select(secrets).with_for_update()).all()
        for row in rows:
            scope = Scope(ScopeKind(row.kind), row.scope_id)
            value = self._cipher.open(Sealed(row.key_id, bytes(row.sealed)), scope, row.key)
            if value is None:
                raise ConfigError(
                    f"the secret {row.key!r} of {scope} cannot be opened with the keys that are"
                    " here, so nothing was changed: name its key in PENSTOCK_SECRET_KEY too"
                )
            sealed = self._cipher.seal(value, scope, row.key)
            made = {"key_id": sealed.key_id, "sealed": sealed.sealed}
            connection.execute(secrets.update().where(_is(scope, row.key)).values(made))
        return len(rows)


def permit_secret(tool_id: str, declared: Sequence[VaultKey], kind: ScopeKind, key: str) -> None:
    """Raise VaultDenied unless the tool declares the key for the kind of scope."""
    if not any(each.key == key and kind.value in each.scope_kinds for each in declared):
        raise VaultDenied(f'"{tool_id}" does not declare the vault key "{key}" for scope {kind}')


def check_secret(scope: Scope, key: str, value: str, limits: Limits) -> None:
    """Raise InvalidRequest for a secret that cannot be stored; the message omits its value."""
    problems = {
        "scope": scope.kind not in _KINDS and "is profile or shared",
        "scopeId": not _SCOPE_ID.fullmatch(scope.id) and "is a name of 1 to 512 characters",
        "key": not _KEY.fullmatch(key)
        and "is 1 to 128 letters, digits, `_`, `.` or `-`, and begins with a letter, digit or `_`",
        "value": _problem(value, limits),
    }
    if found := [{"field": name, "issue": each} for name, each in problems.items() if each]:
        raise InvalidRequest(found)


def warning_of(value: str) -> str | None:
    """Return a warning for the person who sets a secret, or None."""
    if len(value.encode()) >= LEAST_BYTES:
        return None
    return (
        f"a secret under {LEAST_BYTES} bytes cannot be taken out of what is recorded or shown: "
        "take a longer one"
    )


def not_there(scope: Scope, key: str) -> VaultNotFound:
    """Return the error for a secret that is not set."""
    is_usual = scope == Scope(ScopeKind.PROFILE, LOCAL)
    place = scope.kind.value if is_usual else quote(str(scope))
    return VaultNotFound(
        f'no value is stored for the vault key "{key}" in {scope}: penstock vault set {place} {key}'
    )


def by_place(note: SecretListing) -> tuple[str, str, str]:
    """Return the sort key of a listing."""
    return note.scope.kind.value, note.scope.id, note.key


def _may_be(scope: Scope, key: str = "k") -> bool:
    """Whether a secret can have this scope and key; a database refuses other texts."""
    return bool(_SCOPE_ID.fullmatch(scope.id) and _KEY.fullmatch(key))


def _is(scope: Scope, key: str) -> ColumnElement[bool]:
    return and_(of_scope(secrets, scope), secrets.c.key == key)


def _problem(value: str, limits: Limits) -> str | None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "is Unicode text without lone surrogates"
    if not value:
        return "is empty: delete the secret instead"
    if size > limits.secret_bytes:
        return f"has {size} bytes, at most {limits.secret_bytes} may be"
    return None
