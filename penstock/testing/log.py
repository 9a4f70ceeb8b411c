"""A log in memory, for tests and for runs that need not be kept.

Implements the same port as `SqlLog` and passes the same contract tests (tests/contracts): leases
with epochs, appends that are refused after the lease was lost, quarantine of logs whose processes
die, and projections. Nothing can be lost in memory, so an append is complete when it returns.
Relies on one event loop: no method awaits between a check and the change that depends on it.
"""

from collections.abc import Awaitable, Collection, Generator, Mapping, Sequence

from penstock.core.clock import Clock, Moment
from penstock.core.errors import SessionBusy, StoreClosed
from penstock.core.events.events import Entry, Record, SessionOpened, TaskEnded
from penstock.core.events.history_events import MessagesErased
from penstock.core.events.roles import REPEATED, is_outside
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.store.logs.lease_units import lost
from penstock.store.logs.log import Lease, Listener, OnWay, PendingLog
from penstock.store.logs.log_units import MOVED_ON, log_exists
from penstock.store.logs.owners import is_dead
from penstock.store.logs.quarantine import (
    SUSPECT,
    LeaseHistory,
    Quarantine,
    QuarantinedLog,
    suspect_of,
)
from penstock.testing.live_text import MemoryLiveText
from penstock.testing.projections import MemoryProjections
from penstock.testing.resources import MemoryChanges
from penstock.testing.rows import IMMEDIATELY, KeptLog, MemorySnapshots, owner_of


class MemoryLog(MemoryProjections):
    """All events of all logs, with the projections that follow from them."""

    def __init__(self, clock: Clock, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        super().__init__(limits, clock.now)
        self._clock = clock
        self._lease_ms = int(1000 * limits.lease_seconds)
        self._quarantine = Quarantine(limits)
        self._logs: dict[LogId, KeptLog] = {}
        self._in_need: dict[LogId, KeptLog] = {}
        """Logs that need a run, now or later."""
        self._listeners: list[Listener] = []
        self._listeners_of_holders: list[Listener] = []
        self._beginner: str | None = None
        """The owner that begins a task at this moment."""
        self._dead: set[str] = set()
        self.changes = MemoryChanges(limits)
        """State, files and media that calls changed."""
        self.live_text = MemoryLiveText(clock.now, self._epoch_of)
        self.snapshots = MemorySnapshots(self._logs.get)

    def listen(self, listener: Listener, *, of_holders: bool = True) -> None:
        """Call the listener with what is written, or only with what needs no lease."""
        self._listeners.append(listener)
        if of_holders:
            self._listeners_of_holders.append(listener)

    def writer_of(self, log_id: LogId) -> str | None:
        """Return the owner of the write that listeners see: it holds the log, or begins a task.

        None for outside events of a log without a holder.
        """
        return self._beginner or self._logs[log_id].owner

    def bury(self, owner: str) -> None:
        """Treat an owner as a process that has died, also within its own append."""
        self._dead.add(owner)
        self._write_buried(self._held_by(owner))

    async def send(
        self,
        log_id: LogId,
        entries: Sequence[Entry],
        *,
        head: int | None = None,
        on_way: OnWay | None = None,
    ) -> Sequence[Record]:
        """Append outside events, and mark the log as needing a run."""
        log = self._logs.get(log_id)
        if log is not None and type(entries[0].event) is SessionOpened:
            raise log_exists(log_id)
        if log is not None and head not in {None, len(log.records)}:
            raise SessionBusy(MOVED_ON)
        log = log or KeptLog(owner_of(log_id, entries))
        self.admission.check(log.owned, entries, self._clock.now())
        self._logs[log_id] = self._in_need[log_id] = log
        log.wake_at = IMMEDIATELY
        records = self._write(log, entries, self._listeners)
        log.outside += [each for each in records if is_outside(each.event)]
        log.held_from += len(records)
        if on_way is not None:
            on_way(log_id)
        return records

    async def begin(
        self, log_id: LogId, entries: Sequence[Entry], owner: str, *, head: int
    ) -> tuple[Lease, Sequence[Record]] | None:
        """Append outside events and the start of their task, and acquire the lease, atomically."""
        log = self._logs.get(log_id)
        if head != (len(log.records) if log else 0) or (log is not None and log.owner):
            return None
        self._beginner = owner
        try:
            records = await self.send(log_id, entries)
        finally:
            self._beginner = None
        lease = self._take(log_id, owner, is_starting=True)
        assert lease is not None  # noqa: S101  no process holds it
        return lease, records

    async def acquire(self, log_id: LogId, owner: str) -> Lease | None:
        """Acquire the lease if it is free or expired, or its owner died on this host."""
        return self._take(log_id, owner)

    def _take(self, log_id: LogId, owner: str, *, is_starting: bool = False) -> Lease | None:
        log, now = self._logs.get(log_id), self._clock.now()
        if owner in self._dead:
            raise StoreClosed
        if log is None:
            return None
        if log.owner is not None:
            if log.lease_until > now and not is_dead(log.owner):
                return None
            self._bury(log, owner, now)
        if log.owner is not None or not self._is_admitted(log, now):
            return None
        log.owner, log.lease_until = owner, now + self._lease_ms
        log.epoch += 1
        log.held_from = log.known = len(log.records)
        log.tried_at = now if log.deaths else 0
        self.live_text.hear(log_id, log.epoch)
        return Lease(
            log_id=log_id,
            epoch=log.epoch,
            head=len(log.records),
            crashed=log.deaths > 0,
            recoveries=log.deaths,
            alone=log.alone,
            is_started=is_starting,
        )

    async def suspects(self) -> Sequence[QuarantinedLog]:
        """Return the logs in quarantine: several processes died while they ran them."""
        logs = [each.standing for each in self._logs.values()]
        return [suspect_of(each) for each in logs if each.deaths >= SUSPECT and each.is_stuck]

    def _bury_dead(self) -> None:
        for owner in sorted({each.owner for each in self._in_need.values() if each.owner}):
            if is_dead(owner):
                self._write_buried(self._held_by(owner))

    def _bury(self, log: KeptLog, taker: str, now: Moment) -> None:
        held: Sequence[LeaseHistory] = self._held_by(log.owner)
        if not (log.owner and is_dead(log.owner)):
            held = self._quarantine.orphaned(log.standing, held, now, taker)
        self._write_buried(held)

    def _held_by(self, owner: str | None) -> list[LeaseHistory]:
        return [each.standing for each in self._logs.values() if each.owner == owner]

    def _write_buried(self, held: Sequence[LeaseHistory]) -> None:
        for history in self._quarantine.buried(held):
            self._logs[history.log_id].bury(history)

    def _is_admitted(self, log: KeptLog, now: Moment) -> bool:
        if not log.deaths:
            return True
        fewest = 1 if log.deaths >= SUSPECT else SUSPECT
        held = [each.standing for each in self._logs.values() if each.owner]
        watched = [each for each in held if each.is_cut and each.deaths >= fewest]
        watched = [each for each in watched if each.watched_until > now]
        return self._quarantine.admits(log.standing, watched)

    def append(self, lease: Lease, entries: Sequence[Entry]) -> Awaitable[Sequence[Record]]:
        """Append as the holder. Complete on return; awaiting the result does not wait."""
        log = self._logs[lease.log_id]
        if log.epoch != lease.epoch or log.owner is None:
            return _Lost(lease.log_id)
        known = log.known
        slipped = log.records[known:] if known < len(log.records) else None
        in_time = [entry for entry in entries if not self.is_late(entry.event)]
        records = self._write(log, in_time, self._listeners_of_holders)
        if log.owner is None:
            return _Lost(lease.log_id)  # a listener has buried the owner
        self.live_text.drop(lease.log_id, records)
        if _are_repeated(records):
            log.held_from += len(records)
        log.lease_until = records[-1].at + self._lease_ms if records else log.lease_until
        log.known = len(log.records)
        return _Done(records if slipped is None else slipped + records)

    async def renew(self, lease: Lease, *, after: int) -> Sequence[Record]:
        """Renew the lease; return the outside events after `after`."""
        log = self._held(lease)
        log.lease_until = self._clock.now() + self._lease_ms
        self.live_text.hear(lease.log_id, lease.epoch)
        return [record for record in log.outside if record.seq > after]

    async def release(
        self, lease: Lease, *, head: int, wake_at: Moment | None = None
    ) -> Sequence[Record]:
        """Release the lease. If there are events after `head`, return them and keep it."""
        log = self._held(lease)
        if len(log.records) > head:
            return log.records[head:]
        log.owner, log.deaths, log.tried_at = None, 0, 0
        if wake_at is None:
            self._in_need.pop(lease.log_id, None)
        else:
            log.wake_at = wake_at
            self._in_need[lease.log_id] = log
        return ()

    async def surrender(self, lease: Lease) -> None:
        """Release the lease although work is left to do."""
        log = self._logs[lease.log_id]
        if log.epoch == lease.epoch and log.owner is not None:
            log.owner = None
            log.deaths *= log.standing.is_stuck
            log.wake_at = IMMEDIATELY
            self._in_need[lease.log_id] = log

    async def read(
        self,
        log_id: LogId,
        *,
        after: int = 0,
        limit: int | None = None,
        size: int | None = None,
    ) -> Sequence[Record]:
        """Return at most `limit` events after `after`; none for an unknown log."""
        log = self._logs.get(log_id)
        return log.read(after, limit, size) if log else []

    async def check(self, log_id: LogId, *, after: int, until: int) -> None:
        """Do nothing: no event in memory can be missing."""

    async def head(self, log_id: LogId) -> int:
        """Return the number of the newest event, 0 for an unknown log."""
        log = self._logs.get(log_id)
        return len(log.records) if log else 0

    async def erased(self, known: Mapping[LogId, int]) -> set[LogId]:
        """Return the logs that were deleted, or had text erased, after the given event of each."""
        by_log = {log_id: await self.read(log_id, after=seq - 1) for log_id, seq in known.items()}
        return {log_id for log_id, records in by_log.items() if not records or _erases(records[1:])}

    async def pending(
        self, *, limit: int, among: Collection[LogId] | None = None
    ) -> Sequence[PendingLog]:
        """Return logs that need a run and whose lease is free or expired, soonest first."""
        self._bury_dead()
        now = self._clock.now()
        logs = [
            log
            for log in self._in_need.values()
            if log.owner is None or log.lease_until <= now
            if among is None or log.owned.log_id in among
        ]
        soonest = sorted(logs, key=lambda each: each.wake_at)[:limit]
        return [
            PendingLog(
                log_id=log.owned.log_id, profile_id=log.owned.profile_id, wake_at=log.wake_at
            )
            for log in sorted(soonest, key=lambda each: (each.deaths, each.tried_at))
        ]

    def _epoch_of(self, log_id: LogId) -> int | None:
        log = self._logs.get(log_id)
        return None if log is None or log.owner is None else log.epoch

    def _held(self, lease: Lease) -> KeptLog:
        log = self._logs[lease.log_id]
        if log.epoch != lease.epoch or log.owner is None:
            raise lost(lease.log_id)
        return log

    def _write(
        self, log: KeptLog, entries: Sequence[Entry], listeners: Sequence[Listener]
    ) -> list[Record]:
        records, owned, at = log.records, log.owned, self._clock.now()
        log_id, first = owned.log_id, len(records)
        for seq, requested in enumerate(entries, first + 1):
            entry = self.changes.settle(requested, at) if requested.change else requested
            record = Record(log_id, seq, at, entry.task_id, entry.path, entry.event)
            records.append(record)
            self.follow(owned, record)
            if type(record.event) is TaskEnded and record.task_id:
                self.changes.drop_task(record.task_id)
        written = records[first:]
        for listener in listeners:
            listener(written)
        return written


class _Done:
    """An append that succeeded."""

    __slots__ = ("_records",)

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records

    def __await__(self) -> Generator[None, None, Sequence[Record]]:
        yield from ()
        return self._records


class _Lost:
    """An append that was refused; awaiting it raises LeaseLost."""

    __slots__ = ("_log_id",)

    def __init__(self, log_id: LogId) -> None:
        self._log_id = log_id

    def __await__(self) -> Generator[None, None, Sequence[Record]]:
        yield from ()
        raise lost(self._log_id)


def _are_repeated(records: Sequence[Record]) -> bool:
    """Whether none of these events is progress of a task."""
    return all(type(each.event) in REPEATED for each in records)


def _erases(records: Sequence[Record]) -> bool:
    return any(isinstance(record.event, MessagesErased) for record in records)
