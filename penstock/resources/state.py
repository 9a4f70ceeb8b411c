"""Small durable values of profiles, conversations, tasks and of all, with revisions."""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct
from sqlalchemy import Connection, or_, select

from penstock.core.clock import Clock
from penstock.core.envelope import Json
from penstock.core.scopes import Scope
from penstock.core.stored_changes import StateChange, StateEntry, StateOutcome, StateVerb
from penstock.store.changes import Changes, entry_at, entry_of, of_scope, starts_with
from penstock.store.database import Database
from penstock.store.statements import Statements
from penstock.store.tables import state

STATE_KEY_BYTES = 512
"""Most bytes of a key of the State."""

LONGEST_TTL = 31_536_000
"""Seconds: a year."""
MOST_ENTRIES = 1000
_ENTRIES = 100


class StatePage(Struct, frozen=True, kw_only=True):
    """A part of a list."""

    entries: Sequence[StateEntry]
    next_cursor: str | None
    """Where the next part begins; None when nothing remains."""


class State(Protocol):
    """Values under keys, each in a scope.

    Contract: what a method reports is on disk. Writes are atomic between processes. A value whose
    time is over is gone for every reader. Lists are in the order of the keys' bytes, and a cursor
    stays good while entries come and go.
    """

    async def find(self, scope: Scope, key: str) -> StateEntry | None:
        """Return the value under a key."""
        ...

    async def page(
        self, scope: Scope, prefix: str, *, limit: int = _ENTRIES, cursor: str = ""
    ) -> StatePage:
        """Return values whose keys begin so, after the cursor."""
        ...

    async def make(self, change: StateChange) -> StateOutcome:
        """Make a change that no log records; raises ToolFailed with nothing changed.

        The change of a call goes with the record of the call instead: `Ledger.change`.
        """
        ...


class SqlState:
    """Values in the table `state`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._sql = Statements(database.dialect)
        self._changes = Changes(self._sql, database.limits)

    async def find(self, scope: Scope, key: str) -> StateEntry | None:
        """Return the value under a key."""
        place = (scope.kind.value, scope.id, key.encode())
        row = await self._database.read(
            lambda each: each.exec_driver_sql(self._sql.value, place).first()
        )
        entry = None if row is None else entry_at(key, row)
        return None if entry is None or entry.is_over(self._clock.now()) else entry

    async def page(
        self, scope: Scope, prefix: str, *, limit: int = _ENTRIES, cursor: str = ""
    ) -> StatePage:
        """Return values whose keys begin so, after the cursor."""
        living = or_(state.c.expires_at.is_(None), state.c.expires_at > self._clock.now())
        own = (of_scope(state, scope), starts_with(state, prefix), state.c.key > cursor.encode())
        query = select(state).where(*own, living).order_by(state.c.key).limit(limit + 1)
        rows = await self._database.read(lambda each: each.execute(query).all())
        return page_of([entry_of(row) for row in rows], limit)

    async def make(self, change: StateChange) -> StateOutcome:
        """Make a change that no log records."""
        at = self._clock.now()

        def unit(connection: Connection) -> StateOutcome:
            return self._changes.make_state(connection, change, at)

        return await self._database.write(unit)


def page_of(entries: Sequence[StateEntry], limit: int) -> StatePage:
    """Return the first of some entries, and where the rest begins."""
    first = entries[:limit]
    return StatePage(entries=first, next_cursor=first[-1].key if len(entries) > limit else None)


def read_change(verb: StateVerb, scope: Scope, arguments: Json, revision: str) -> StateChange:
    """Return what a script asks for; `revision` is a new name. Raises TypeError for a bad shape."""
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
    """Return the key, or with `key_prefix` the prefix, that a script names. Raises TypeError."""
    if "scope_id" in arguments:
        raise TypeError("flo.state does not accept scope_id; declare it in the manifest")
    key = arguments.get(name)
    if not isinstance(key, str) or (not key and name == "key"):
        raise TypeError(f"flo.state wants {name} to be a text, found {key!r}")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise TypeError(f"flo.state wants {name} without lone surrogates: {key!r}") from None
    if size > STATE_KEY_BYTES:
        raise TypeError(f"flo.state needs {name} of at most {STATE_KEY_BYTES} bytes, found {size}")
    return key


def read_limit(arguments: Json) -> int:
    """Return how many entries a script wants at once. Raises TypeError."""
    limit = arguments.get("limit")
    if limit is None:
        return _ENTRIES
    if type(limit) is not int or not 1 <= limit <= MOST_ENTRIES:
        raise TypeError(f"flo.state wants limit from 1 to {MOST_ENTRIES}, found {limit!r}")
    return limit


def result_of(change: StateChange, recorded: Json) -> dict[str, Any]:
    """Return what a script sees of its change, made of what the log recorded of it."""
    result = dict(recorded)
    if change.verb is StateVerb.PUT and "entry" in result:
        result["entry"] = {**result["entry"], "value": change.value}
    return result


def entry_to_wire(entry: StateEntry) -> dict[str, Any]:
    """Return a value as scripts see it."""
    return {**entry.to_wire(), "value": entry.value}


def _value(verb: StateVerb, arguments: Json) -> Any:
    name = {StateVerb.PUT: "value", StateVerb.PATCH: "patch"}.get(verb, "item")
    if name not in arguments:
        raise TypeError(f"flo.state.{verb} wants {name}")
    value = arguments[name]
    if verb is StateVerb.PATCH and not isinstance(value, dict):
        raise TypeError(f"flo.state.patch wants patch to be an object, found {value!r:.80}")
    return value


def _expected(arguments: Json) -> tuple[str | None, ...]:
    if "if_revision" not in arguments:
        return ()
    revision = arguments["if_revision"]
    if revision is not None and not isinstance(revision, str):
        raise TypeError(f"flo.state wants if_revision to be a text or null, found {revision!r:.80}")
    return (revision,)


def _ttl(arguments: Json) -> int | None:
    seconds = arguments.get("ttl_seconds")
    if isinstance(seconds, float) and seconds.is_integer():
        seconds = int(seconds)
    if seconds is None or (type(seconds) is int and 1 <= seconds <= LONGEST_TTL):
        return seconds
    raise TypeError(f"flo.state wants ttl_seconds from 1 to {LONGEST_TTL}, found {seconds!r:.80}")
