"""The snapshots of logs in memory."""

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.core.events.events import Record
from penstock.core.events.history_events import MessagesErased
from penstock.core.ids import LogId
from penstock.store.logs.log import StoredState


class HasRecords(Protocol):
    """A log in memory."""

    @property
    def records(self) -> Sequence[Record]:
        """Its events."""
        ...


class MemorySnapshots:
    """The newest snapshot of each log."""

    def __init__(self, find_log: Callable[[LogId], HasRecords | None]) -> None:
        self._find_log = find_log
        self.kept: dict[LogId, StoredState] = {}

    async def read(self, log_id: LogId) -> StoredState | None:
        """Return the snapshot of a log, unless something was erased after it."""
        snapshot = self.kept.get(log_id)
        return snapshot if snapshot and self._is_valid(log_id, snapshot) else None

    async def write(self, log_id: LogId, snapshot: StoredState) -> bool:
        """Replace the snapshot of a log; return False if it was refused."""
        newest = self.kept.get(log_id)
        is_old = newest is not None and newest.version == snapshot.version
        is_old = is_old and newest is not None and newest.seq > snapshot.seq
        if is_old or not self._is_valid(log_id, snapshot):
            return False
        self.kept[log_id] = snapshot
        return True

    def _is_valid(self, log_id: LogId, snapshot: StoredState) -> bool:
        if (log := self._find_log(log_id)) is None:
            return False
        return MessagesErased not in [type(each.event) for each in log.records[snapshot.seq :]]
