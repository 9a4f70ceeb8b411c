"""A bounded cache of folded logs that no activation works on.

Guarantees: `take` returns exactly the state at the head of the lease; a cached state never contains
text that was erased; a damaged log raises StoreCorrupt before anything is appended to it.

How: a cached state follows the commits of this process, so a next turn folds nothing. If another
process wrote in between, the rest of the log is applied on top. A log that is erased while it is
held or being folded is marked stale, and `keep` refuses its state. A fold reads at most 4,000
events or 8 MiB at a time, so that one long log does not block the event loop (docs/decisions/015).

Relies on: `observe` receives every commit of this process, in the order of each log; `drop_erased`
runs in every sweep, since an erase by another process changes text without adding to the head.

Shown by tests/engine/test_state_cache.py.
"""

from collections import OrderedDict
from collections.abc import Container, Sequence

from penstock.core.events.events import MessagesErased, Record
from penstock.core.ids import LogId
from penstock.core.limits import MIB
from penstock.engine.state import SessionState, catch_up, fold
from penstock.store.logs.log import Lease, Log

CACHED_STATES = 512
"""Folded states that a process keeps in memory for their next turn."""

_AT_ONCE = 4_000
"""Events in memory at once while a long log is folded."""
_SIZE_AT_ONCE = 8 * MIB
"""Characters of their bodies, not counting the last one."""


class StateCache:
    """States of at most `most` logs; the state that was kept longest is dropped first."""

    def __init__(self, log: Log, held: Container[LogId], *, most: int = CACHED_STATES) -> None:
        self._log = log
        self._held = held
        """Logs with an activation in this process."""
        self._reading: set[LogId] = set()
        """Logs that `ensure_readable` is folding."""
        self._stale: set[LogId] = set()
        """Held or folding logs in which something was erased; their states are not kept."""
        self._most = most
        self._kept: OrderedDict[LogId, SessionState] = OrderedDict()

    def find(self, log_id: LogId) -> SessionState | None:
        """Return the cached state of a log."""
        return self._kept.get(log_id)

    async def ensure_readable(self, log_id: LogId) -> None:
        """Fold a log into the cache, unless it is cached, held or empty.

        Raises StoreCorrupt if the log cannot be read.
        """
        if self._is_here(log_id):
            return
        self._reading.add(log_id)
        try:
            state = await self._folded(log_id, await self._log.head(log_id))
        finally:
            self._reading.discard(log_id)
        if state.seq and not self._is_here(log_id):
            self.keep(state)

    async def take(self, lease: Lease) -> SessionState:
        """Remove and return the state of a log at the head of its lease."""
        log_id = lease.log_id
        self._stale.discard(log_id)
        state = self._kept.pop(log_id, None)
        if state is not None and state.seq == lease.head:
            return state
        return await self._folded(log_id, lease.head, state)

    def keep(self, state: SessionState) -> None:
        """Cache a state, unless something in its log was erased meanwhile."""
        if state.log_id in self._stale:
            self._stale.discard(state.log_id)
            return
        self._kept[state.log_id] = state
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def observe(self, records: Sequence[Record]) -> None:
        """Apply committed events to the cached state; cache the state of a new log.

        The next activation then has nothing to read.
        """
        log_id, first = records[0].log_id, records[0].seq
        if first == 1:  # a new log: these records are all of it, so nothing has to be read
            self.keep(fold(log_id, records))
        elif _erases(records):
            self.forget(log_id)
        elif (state := self._kept.get(log_id)) and state.seq == first - 1:
            catch_up(state, records)

    def forget(self, log_id: LogId) -> None:
        """Drop the state of a log in which something was erased."""
        self._kept.pop(log_id, None)
        if log_id in self._held or log_id in self._reading:
            self._stale.add(log_id)

    async def drop_erased(self) -> None:
        """Drop states of logs that another process deleted or in which it erased something."""
        known = {log_id: state.seq for log_id, state in self._kept.items()}
        for log_id in await self._log.erased(known) if known else ():
            self.forget(log_id)

    async def _folded(
        self, log_id: LogId, head: int, known: SessionState | None = None
    ) -> SessionState:
        """Fold a log to its head, starting from `known`, in parts with other work in between.

        If text is erased during the fold, it may be in a part that was already read, so the fold
        restarts. Raises StoreCorrupt if the log cannot be read or misses an event.
        """
        # `read` is the newest event read before a restart: an erase up to there is already known.
        state, read = (SessionState(log_id), head) if known is None else (known, known.seq)
        part = await self._part(state)
        while part:
            if state.seq and _erases([record for record in part if record.seq > read]):
                state, read = SessionState(log_id), part[-1].seq
            else:
                catch_up(state, part)
                if len(part) < _AT_ONCE and state.seq >= max(head, read):
                    break
            part = await self._part(state)
        return state

    async def _part(self, state: SessionState) -> Sequence[Record]:
        return await self._log.read(
            state.log_id, after=state.seq, limit=_AT_ONCE, size=_SIZE_AT_ONCE
        )

    def _is_here(self, log_id: LogId) -> bool:
        return log_id in self._kept or log_id in self._held


def _erases(records: Sequence[Record]) -> bool:
    return MessagesErased in [type(record.event) for record in records]
