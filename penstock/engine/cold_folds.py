"""Folds of logs that are not in memory: from a snapshot where one fits, else from the first event.

Guarantees: the state is that of all events, and contains no text that was erased before the fold
ended. A damaged event raises StoreCorrupt, if no snapshot covers it. Snapshots are written outside
of any turn, by the sweep of the launcher and at the end of the process.

How: a fold reads at most 4,000 events or 8 MiB at a time, so that one long log does not block the
event loop. If text is erased meanwhile, it may be in a part that was already read, and a snapshot
may lack what a later message needs: then the fold restarts from the first event. A snapshot is
believed if its checksum and `fold_version` fit. It is written once 500 events lie behind the last
one, more if the messages are long, for a state that rests between two tasks; the store refuses it
if something was erased in the log since (docs/decisions/097).

Relies on: a state in the cache has exactly the events up to its `seq`.

Shown by tests/engine/test_cold_folds.py and test_snapshot.py.
"""

import logging
from collections.abc import Callable, Sequence

from penstock.core.events.events import Record
from penstock.core.events.history_events import MessagesErased
from penstock.core.ids import LogId
from penstock.core.limits import MIB
from penstock.engine.session_state import SNAPSHOT_EVENTS, SessionState, catch_up
from penstock.engine.snapshot import fold_version, from_snapshot, is_at_rest, to_snapshot
from penstock.store.logs.log import Log, StoredState

log = logging.getLogger(__name__)

_MAX_EVENTS = 4_000
"""Events in memory at once while a long log is folded."""
_MAX_SIZE = 8 * MIB
"""Characters of their bodies, not counting the last one."""
TOKENS_PER_EVENT = 250
"""A snapshot of many messages waits for more events, so that writing it stays cheap for each."""


class ColdFolds:
    """Folds logs, and keeps their snapshots."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def folded(
        self, log_id: LogId, head: int, known: SessionState | None = None
    ) -> SessionState:
        """Fold a log to its head, in parts with other work in between.

        Starts from `known`, else from the snapshot of the log. Raises StoreCorrupt if the log
        cannot be read or misses an event.
        """
        start = known or await self._restored(log_id, head)
        # `read` is the newest event read before a restart: an erase up to there is already known.
        state, read = (SessionState(log_id), head) if start is None else (start, start.seq)
        while part := await self._part(state):
            if state.seq and _erases(part, read):
                state, read = SessionState(log_id), part[-1].seq
                continue
            catch_up(state, part)
            if state.is_short:
                state, read = SessionState(log_id), max(read, part[-1].seq)
            elif len(part) < _MAX_EVENTS and state.seq >= max(head, read):
                break
        return state

    async def whole(self, state: SessionState) -> SessionState:
        """Fold all events of a log that is held here: its snapshot left out what a task needs."""
        return await self.folded(state.log_id, state.seq, SessionState(state.log_id))

    async def save(self, next_due: Callable[[], SessionState | None]) -> None:
        """Write snapshots of states that have enough events and rest. Raises StoreError."""
        # One at a time: while a snapshot is written, a turn may take the other states and change
        # them before their events are on disk.
        while (state := next_due()) is not None:
            fewest = max(SNAPSHOT_EVENTS, state.messages.tokens // TOKENS_PER_EVENT)
            if state.seq - state.saved >= fewest and is_at_rest(state) and fold_version():
                await self._save(state)

    async def _save(self, state: SessionState) -> None:
        # taken before the write: a turn may take the state meanwhile
        seq, body = state.seq, to_snapshot(state)
        if body is not None:
            snapshot = StoredState(seq, fold_version(), body)
            await self._log.snapshots.write(state.log_id, snapshot)
        state.saved = seq

    async def _restored(self, log_id: LogId, head: int) -> SessionState | None:
        """Return the state of a log's snapshot, if there is one that fits."""
        if head < SNAPSHOT_EVENTS:  # too short for one: no need to ask
            return None
        snapshot = await self._log.snapshots.read(log_id)
        if snapshot is None or snapshot.seq > head or snapshot.version != fold_version():
            return None
        try:
            return from_snapshot(log_id, snapshot.seq, snapshot.body)
        except (ValueError, RecursionError) as error:
            log.warning("the snapshot of log %s is not used: %s", log_id, error)
            return None

    async def _part(self, state: SessionState) -> Sequence[Record]:
        return await self._log.read(
            state.log_id, after=state.seq, limit=_MAX_EVENTS, size=_MAX_SIZE
        )


def _erases(records: Sequence[Record], read: int) -> bool:
    """Whether an event that is not read yet erased something."""
    return any(each.seq > read and type(each.event) is MessagesErased for each in records)
