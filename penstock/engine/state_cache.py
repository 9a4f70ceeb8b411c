"""Folded logs that nobody works on just now, kept at hand."""

from collections import OrderedDict
from collections.abc import Container, Sequence

from penstock.core.events.events import MessagesErased, Record
from penstock.core.ids import LogId
from penstock.core.limits import MIB
from penstock.engine.state import SessionState, catch_up, fold
from penstock.store.logs.log import Lease, Log

_AT_ONCE = 4_000
"""Events that are in memory together while a long log is folded."""
_SIZE_AT_ONCE = 8 * MIB
"""Characters of their bodies, without the last."""


class StateCache:
    """States of logs, at most so many; the one that was put back first goes first."""

    def __init__(self, log: Log, held: Container[LogId], *, most: int) -> None:
        self._log = log
        self._held = held
        """The logs at work."""
        self._reading: set[LogId] = set()
        """Logs that are being folded to be at hand."""
        self._stale: set[LogId] = set()
        """Logs at work, or being folded, in which something was erased: their states are not kept.
        """
        self._most = most
        self._kept: OrderedDict[LogId, SessionState] = OrderedDict()

    def find(self, log_id: LogId) -> SessionState | None:
        """Return the state of a log, if it is at hand."""
        return self._kept.get(log_id)

    async def ensure_readable(self, log_id: LogId) -> None:
        """See to it that a log is at hand or at work, if it is there at all.

        Raises StoreCorrupt when it does not read back.
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
        """Return the state of a log as of its lease, to be worked on; it is not at hand then."""
        log_id = lease.log_id
        self._stale.discard(log_id)
        state = self._kept.pop(log_id, None)
        if state is not None and state.seq == lease.head:
            return state
        return await self._folded(log_id, lease.head, state)

    def keep(self, state: SessionState) -> None:
        """Have the state at hand from now on, unless something in it was erased meanwhile."""
        if state.log_id in self._stale:
            self._stale.discard(state.log_id)
            return
        self._kept[state.log_id] = state
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def observe(self, records: Sequence[Record]) -> None:
        """Take in what was committed to a log that is new, or at hand.

        Who takes the lease next has nothing to read then.
        """
        log_id, first = records[0].log_id, records[0].seq
        if first == 1:
            self.keep(fold(log_id, records))
        elif _erases(records):
            self.forget(log_id)
        elif (state := self._kept.get(log_id)) and state.seq == first - 1:
            catch_up(state, records)

    def forget(self, log_id: LogId) -> None:
        """Drop the state of a log, because something in it was erased."""
        self._kept.pop(log_id, None)
        if log_id in self._held or log_id in self._reading:
            self._stale.add(log_id)

    async def drop_erased(self) -> None:
        """Drop the states of logs that another process deleted, or in which it erased something."""
        known = {log_id: state.seq for log_id, state in self._kept.items()}
        for log_id in await self._log.erased(known) if known else ():
            self.forget(log_id)

    async def _folded(
        self, log_id: LogId, head: int, known: SessionState | None = None
    ) -> SessionState:
        """Fold a log to its head, from what is known, a part at a time: others have their turn.

        Text erased meanwhile may be in a part that was read before: then folding restarts. Raises
        StoreCorrupt for a log that does not read back, or of which an event is missing.
        """
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
