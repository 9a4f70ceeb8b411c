"""Small durable values with revisions, for a profile, conversation, task, or all of them."""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from penstock.core.envelope import Json
from penstock.core.scopes import Scope
from penstock.core.stored.changes import StateChange, StateEntry, StateOutcome, StateVerb

STATE_KEY_BYTES = 512
"""Maximum size of a key in bytes."""

MAX_TTL_SECONDS = 31_536_000
"""Maximum TTL in seconds: one year."""
MAX_ENTRIES = 1000
PAGE_ENTRIES = 100
"""Entries of a page whose request names no number."""


class StatePage(Struct, frozen=True, kw_only=True):
    """One page of a list."""

    entries: Sequence[StateEntry]
    next_cursor: str | None
    """Start of the next page; None on the last page."""


class State(Protocol):
    """Values under keys, each in a scope.

    Contract: a reported change is on disk. Writes are atomic between processes. Expired values are
    invisible to all readers. Lists are ordered by the bytes of the keys. A cursor stays valid when
    values are added or deleted.
    """

    async def find(self, scope: Scope, key: str) -> StateEntry | None:
        """Return the value under a key."""
        ...

    async def page(
        self, scope: Scope, prefix: str, *, limit: int = PAGE_ENTRIES, cursor: str = ""
    ) -> StatePage:
        """Return values whose keys start with `prefix`, after the cursor."""
        ...

    async def make(self, change: StateChange) -> StateOutcome:
        """Make a change that no log records. Raises ToolFailed without changing anything.

        Calls use `Ledger.change` instead, which commits the change with the record of the call.
        """
        ...


def page_of(entries: Sequence[StateEntry], limit: int) -> StatePage:
    """Return a page of the first entries, with the cursor of the next page."""
    first = entries[:limit]
    return StatePage(entries=first, next_cursor=first[-1].key if len(entries) > limit else None)


def read_change(verb: StateVerb, scope: Scope, arguments: Json, revision: str) -> StateChange:
    """Parse the arguments of a script. `revision` is a new id. Raises TypeError."""
    removes = verb is StateVerb.DELETE
    return StateChange(
        verb=verb,
        scope=scope,
        key=arguments["key"],
        revision=revision,
        value=None if removes else _value(verb, arguments),
        expected=_expected(arguments),
        ttl_seconds=None if removes else _ttl(arguments),
    )


def read_key(arguments: Json, name: str = "key") -> str:
    """Return the key, or the prefix under `key_prefix`, in the arguments. Raises TypeError."""
    if "scope_id" in arguments:
        raise TypeError("flo.state does not accept scope_id; declare it in the manifest")
    key = arguments.get(name)
    if not isinstance(key, str) or (not key and name == "key"):
        raise TypeError(f"{name} must be text, found {key!r} (flo.state)")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise TypeError(
            f"{name} must not have lone surrogates, found {key!r} (flo.state)"
        ) from None
    if size > STATE_KEY_BYTES:
        raise TypeError(
            f"{name} must have at most {STATE_KEY_BYTES} bytes, found {size} (flo.state)"
        )
    return key


def read_limit(arguments: Json) -> int:
    """Return the requested size of a page. Raises TypeError."""
    limit = arguments.get("limit")
    if limit is None:
        return PAGE_ENTRIES
    if type(limit) is not int or not 1 <= limit <= MAX_ENTRIES:
        raise TypeError(f"limit must be from 1 to {MAX_ENTRIES}, found {limit!r} (flo.state)")
    return limit


def result_of(change: StateChange, recorded: Json) -> dict[str, Any]:
    """Return the result of a change for the script, from the record in the log."""
    result = dict(recorded)
    if change.verb is StateVerb.PUT and "entry" in result:
        result["entry"] = {**result["entry"], "value": change.value}
    return result


def entry_to_wire(entry: StateEntry) -> dict[str, Any]:
    """Return a value in the form for scripts."""
    return {**entry.to_wire(), "value": entry.value}


def _value(verb: StateVerb, arguments: Json) -> Any:
    name = {StateVerb.PUT: "value", StateVerb.PATCH: "patch"}.get(verb, "item")
    if name not in arguments:
        raise TypeError(f"{name} is required (flo.state.{verb})")
    value = arguments[name]
    if verb is StateVerb.PATCH and not isinstance(value, dict):
        raise TypeError(f"patch must be an object, found {value!r:.80} (flo.state.patch)")
    return value


def _expected(arguments: Json) -> tuple[str | None, ...]:
    if "if_revision" not in arguments:
        return ()
    revision = arguments["if_revision"]
    if revision is not None and not isinstance(revision, str):
        raise TypeError(f"if_revision must be text or null, found {revision!r:.80} (flo.state)")
    return (revision,)


def _ttl(arguments: Json) -> int | None:
    seconds = arguments.get("ttl_seconds")
    if isinstance(seconds, float) and seconds.is_integer():
        seconds = int(seconds)
    if seconds is None or (type(seconds) is int and 1 <= seconds <= MAX_TTL_SECONDS):
        return seconds
    raise TypeError(
        f"ttl_seconds must be from 1 to {MAX_TTL_SECONDS}, found {seconds!r:.80} (flo.state)"
    )
