"""State in memory."""

from penstock.core.clock import Clock
from penstock.core.state.changes import StateChange
from penstock.core.state.scope import Scope
from penstock.resources.state import StatePage, page_of
from penstock.store.state_entry import StateEntry, StateOutcome
from penstock.testing.changes import MemoryChanges


class MemoryState:
    """State values that change together with a MemoryLog."""

    def __init__(self, changes: MemoryChanges, clock: Clock) -> None:
        self._changes = changes
        self._clock = clock

    async def find(self, scope: Scope, key: str) -> StateEntry | None:
        """Return the value under a key."""
        entry = self._changes.of(scope).state.get(key)
        return None if entry is None or entry.is_over(self._clock.now()) else entry

    async def page(
        self, scope: Scope, prefix: str, *, limit: int = 100, cursor: str = ""
    ) -> StatePage:
        """Return values whose keys start with the prefix, after the cursor."""
        now, after = self._clock.now(), cursor.encode()
        found = [
            entry
            for key, entry in self._changes.of(scope).state.items()
            if key.startswith(prefix) and key.encode() > after and not entry.is_over(now)
        ]
        return page_of(sorted(found, key=lambda each: each.key.encode()), limit)

    async def make(self, change: StateChange) -> StateOutcome:
        """Apply a change without a log entry."""
        return self._changes.make_state(change, self._clock.now())
