"""Secrets by key, of a profile or shared, and the handles that represent them in scripts.

Only a tool that declares a key can read it (`permit_secret`). `SqlVault` stores what `cipher.py`
encrypts; no error and no list contains a value. A script never gets the value, only a handle: a
random text, which `egress.py` replaces in a request to a host that the tool names. Elsewhere a
handle is inert, and so is one of another run of the script.
Proof: tests/resources/test_vault.py, tests/contracts/test_vault.py, tests/resources/test_egress.py.
"""

import re
from collections.abc import Callable, Sequence
from shlex import quote
from typing import Protocol

from msgspec import Struct

from penstock.core.call_errors import VaultDenied, VaultNotFound
from penstock.core.clock import Moment
from penstock.core.errors import InvalidRequest
from penstock.core.ids import new_secret
from penstock.core.limits import KIB
from penstock.core.profile import LOCAL
from penstock.core.scopes import Scope, ScopeKind
from penstock.manifest.bindings import VaultKey
from penstock.resources.redact import MIN_BYTES

SECRET_BYTES = 64 * KIB
"""Most bytes of a secret."""

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


def permit_secret(tool_id: str, declared: Sequence[VaultKey], kind: ScopeKind, key: str) -> None:
    """Raise VaultDenied unless the tool declares the key for the kind of scope."""
    if not any(each.key == key and kind.value in each.scope_kinds for each in declared):
        raise VaultDenied(f'"{tool_id}" does not declare the vault key "{key}" for scope {kind}')


def check_secret(scope: Scope, key: str, value: str) -> None:
    """Raise InvalidRequest for a secret that cannot be stored; the message omits its value."""
    problems = {
        "scope": scope.kind not in _KINDS and "is profile or shared",
        "scopeId": not _SCOPE_ID.fullmatch(scope.id) and "is a name of 1 to 512 characters",
        "key": not _KEY.fullmatch(key)
        and "is 1 to 128 letters, digits, `_`, `.` or `-`, and begins with a letter, digit or `_`",
        "value": _problem(value),
    }
    if issues := [{"field": name, "issue": each} for name, each in problems.items() if each]:
        raise InvalidRequest(issues)


def warning_of(value: str) -> str | None:
    """Return a warning for the person who sets a secret, or None."""
    if len(value.encode()) >= MIN_BYTES:
        return None
    return (
        f"a secret under {MIN_BYTES} bytes cannot be redacted from logs and output: "
        "choose a longer one"
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


def may_be(scope: Scope, key: str = "k") -> bool:
    """Whether a secret can have this scope and key; a database refuses other texts."""
    return bool(_SCOPE_ID.fullmatch(scope.id) and _KEY.fullmatch(key))


def _problem(value: str) -> str | None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "is Unicode text without lone surrogates"
    if not value:
        return "is empty: delete the secret instead"
    if size > SECRET_BYTES:
        return f"has {size} bytes; at most {SECRET_BYTES} are allowed"
    return None


# ---- handles ----

HANDLE_PREFIX = "secret-handle-"


class _Held(Struct, frozen=True):
    key: str
    value: str


class SecretHandles:
    """The handles of one entry of a script."""

    def __init__(self, chance: Callable[[], bytes] = new_secret) -> None:
        self._chance = chance
        self._held: dict[str, _Held] = {}
        self._pattern: re.Pattern[str] | None = None

    def new(self, key: str, value: str) -> str:
        """Return a random text that represents the secret."""
        handle = HANDLE_PREFIX + self._chance().hex()[:32]
        self._held[handle] = _Held(key, value)
        self._pattern = re.compile("|".join(self._held))
        return handle

    def keys_in(self, *texts: str) -> set[str]:
        """Return the keys of the secrets whose handles are in the texts."""
        if self._pattern is None:
            return set()
        return {self._held[each].key for text in texts for each in self._pattern.findall(text)}

    def open(self, text: str, encode: Callable[[str], str] = str) -> str:
        """Return the text with each handle replaced by its secret, encoded for its place."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda handle: encode(self._held[handle[0]].value), text)
