"""The implementation of the log port on SQLite and Postgres.

Guarantees: the contract of `log.py`. Listeners get every record of this process once, in the order
of its log, after its commit.

How it works. Every write is a unit of work for the one writing thread (`store/writer.py`); this
class builds the unit, submits it, and turns its outcome into records. `append` does not wait: it
counts its entries in `LeaseProgress.written` at once and returns an awaitable, so a holder may
append again while the first is in flight. Bodies above `limits.body_bytes` become blobs first;
later appends to the log wait for that, to keep the order.
Relies on: the writer keeps the order of one log; all calls come from one event loop; each write
names the lease's epoch, so a holder that lost its lease changes nothing. Proof: test_sql_log.py.
"""

import asyncio
from collections.abc import Awaitable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection

from penstock.core.clock import Clock, Moment
from penstock.core.errors import AlreadyAnswered, LeaseLost, StoreError
from penstock.core.events.events import Entry, QuestionAnswered, Record, TaskEnded
from penstock.core.events.roles import is_outside
from penstock.core.ids import BlobId, LogId
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.logs.lease_units import (
    AcquireLease,
    CountDeaths,
    ReadPending,
    ReleaseLease,
    RenewLease,
    lost,
    suspects,
)
from penstock.store.logs.log import ENDS_OF_REPLIES, Lease, Listener, OnWay, PendingLog
from penstock.store.logs.log_units import (
    MANY,
    AppendUnit,
    BeginUnit,
    EventDrafts,
    LeaseProgress,
    SendUnit,
    append_all,
    blobs_of,
)
from penstock.store.logs.outbox import OutboxWriter
from penstock.store.logs.owners import is_dead
from penstock.store.logs.quarantine import Quarantine, QuarantinedLog
from penstock.store.logs.sql_live_text import SqlLiveText
from penstock.store.logs.sql_snapshots import SqlSnapshots
from penstock.store.logs.webhook import Webhook
from penstock.store.projections import ProjectionWriter
from penstock.store.references import erased_since, given_for
from penstock.store.rows import CheckRange, EventRows, ReadPage, Row, head_of
from penstock.store.statements import Statements
from penstock.store.values.changes import Changes, loosen
from penstock.store.writer import Work, refused

_ALL = 2**62
_MIN_EVENTS = 16
"""Fewest events per page, whatever the size of their bodies."""
_CHANGE_OF = attrgetter("change")


class SqlLog:
    """Every event of every log, in the tables `logs` and `events`."""

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        clock: Clock,
        *,
        webhooks: Sequence[Webhook] = (),
    ) -> None:
        limits = database.limits
        self._database = database
        self._takes_whole_pages = database.dialect == "postgresql"
        """The driver loads the whole result into memory before it returns the first row."""
        self._body_bytes = limits.body_bytes
        self._writer = database.writer
        self._clock = clock
        self._sql = Statements(database.dialect)
        self._projections = ProjectionWriter(self._sql, limits)
        self._changes = Changes(self._sql, limits)
        self._outbox = OutboxWriter(self._sql, webhooks) if webhooks else None
        self._rows = EventRows(blobs)
        self._drafts = EventDrafts(blobs, limits.body_bytes)
        self._lease_ms = int(1000 * limits.lease_seconds)
        self._quarantine = Quarantine(limits)
        self._listeners: list[Listener] = []
        self._listeners_of_holders: list[Listener] = []
        self._held: dict[LogId, LeaseProgress] = {}
        self._slow: dict[LogId, asyncio.Task[None]] = {}
        self._loosening: set[asyncio.Task[None]] = set()
        self.live_text = SqlLiveText(database, clock, self._sql, self._held)
        self.snapshots = SqlSnapshots(database, self._sql)

    def listen(self, listener: Listener, *, of_holders: bool = True) -> None:
        """Call the listener with what this process commits, or only with what needs no lease."""
        self._listeners.append(listener)
        if of_holders:
            self._listeners_of_holders.append(listener)

    async def send(
        self,
        log_id: LogId,
        entries: Sequence[Entry],
        *,
        head: int | None = None,
        on_way: OnWay | None = None,
    ) -> Sequence[Record]:
        """Append outside events, and mark the log as needing a run."""
        convert = partial(self._drafts.from_entries, entries, self._clock.now())
        is_long = len(entries) > MANY
        drafts, are_small = await asyncio.to_thread(convert) if is_long else convert()
        if not are_small:
            drafts = await self._drafts.put_away(drafts)
        unit = SendUnit(self._sql, self._projections, log_id, entries, drafts, head)
        await self._writer.room()
        sent = Work(unit, self._sent, order=log_id)
        self._writer.submit(sent)
        if on_way is not None:
            on_way(log_id)
        try:
            records: Sequence[Record] = await sent
        except AlreadyAnswered as error:
            raise await self._with_answer(log_id, entries, error) from None
        return records

    async def begin(
        self, log_id: LogId, entries: Sequence[Entry], owner: str, *, head: int
    ) -> tuple[Lease, Sequence[Record]] | None:
        """Append outside events and the start of their task, and acquire the lease, atomically."""
        now = self._clock.now()
        drafts, are_small = self._drafts.from_entries(entries, now)
        if not are_small:
            return None
        send = SendUnit(self._sql, self._projections, log_id, entries, drafts)
        unit = BeginUnit(send, owner, now + self._lease_ms, head)
        await self._writer.room()
        begun = Work(unit, self._begun, order=log_id)
        self._writer.submit(begun)
        try:
            records = await begun
        except asyncio.CancelledError:
            # the commit may come before or after this: the second of the two releases the lease
            unit.is_abandoned = True
            if begun.outcome and begun.is_settled:
                self._release_abandoned(log_id)
            raise
        if not records:
            return None
        progress = self._held[log_id]
        if progress.followed_until:
            self.live_text.set_followed(log_id, progress.epoch, progress.followed_until)
        head = records[-1].seq
        return Lease(log_id=log_id, epoch=progress.epoch, head=head, is_started=True), records

    async def acquire(self, log_id: LogId, owner: str) -> Lease | None:
        """Acquire the lease if it is free or expired, or its owner is dead on this host."""
        now = self._clock.now()
        until = now + self._lease_ms
        take = AcquireLease(self._sql, self._quarantine, log_id, owner, now, until)
        taken = await self._writer.write(take, order=log_id)
        if isinstance(taken, str) and is_dead(taken):  # asked outside of the transaction
            take.dead = taken
            taken = await self._writer.write(take, order=log_id)
        if taken is None or isinstance(taken, str):
            return None
        head, outside = taken.head, taken.outside
        self._held[log_id] = LeaseProgress(taken.epoch, head - outside, head, outside)
        if taken.followed_until:
            self.live_text.set_followed(log_id, taken.epoch, taken.followed_until)
        return Lease(
            log_id=log_id,
            epoch=taken.epoch,
            head=head,
            crashed=taken.deaths > 0,
            recoveries=taken.deaths,
            alone=taken.alone,
        )

    async def suspects(self) -> Sequence[QuarantinedLog]:
        """Return the logs in quarantine: several processes in a row died while they held them."""
        return await self._database.read(partial(suspects, self._sql))

    def append(self, lease: Lease, entries: Sequence[Entry]) -> Awaitable[Sequence[Record]]:
        """Append as the holder, after all appends that were submitted before."""
        log_id, now = lease.log_id, self._clock.now()
        progress = self._held.get(log_id)
        if progress is None or progress.epoch != lease.epoch:
            return refused(lost(log_id))
        entries, kinds = tuple(entries), {type(entry.event) for entry in entries}
        # a copy: the progress changes with each append
        expected, until = copy(progress), now + self._lease_ms
        drafts, are_small = self._drafts.from_entries(entries, now)
        parts = (self._sql, self._projections, log_id, entries, kinds, drafts, until)
        unit = AppendUnit(*parts, expected)
        if TaskEnded in kinds or any(map(_CHANGE_OF, entries)):
            unit.changes = self._changes
        unit.outbox = self._outbox
        if progress.may_have_text and not kinds.isdisjoint(ENDS_OF_REPLIES):
            progress.may_have_text, unit.completes_reply = False, True
        # counted before the write: the next append expects its entries behind these. If this one
        # fails the count is wrong for good, so every later append of the lease fails, too.
        progress.written += len(entries)
        appended = Work(unit, self._appended, order=log_id, joint=append_all)
        if log_id not in self._slow and are_small:
            self._writer.submit(appended)
        else:
            self._submit_later(log_id, appended)
        return appended

    async def renew(self, lease: Lease, *, after: int) -> Sequence[Record]:
        """Extend the lease. Return the outside events after `after`."""
        until = self._clock.now() + self._lease_ms
        unit = RenewLease(self._sql, lease.log_id, lease.epoch, until, after)
        records = await self._hold(lease, unit)
        self.live_text.set_followed(lease.log_id, lease.epoch, unit.followed_until)
        return [record for record in records if is_outside(record.event)]

    async def release(
        self, lease: Lease, *, head: int, wake_at: Moment | None = None
    ) -> Sequence[Record]:
        """Release the lease. Return the events after `head`; if there are any, it stays held."""
        unit = ReleaseLease(self._sql, lease.log_id, lease.epoch, head, wake_at)
        records = await self._hold(lease, unit)
        if not records:
            self._forget(lease.log_id, lease.epoch)
        return records

    async def surrender(self, lease: Lease) -> None:
        """Release the lease and leave the log marked as needing a run."""
        unit = partial(self._surrender, lease.log_id, lease.epoch)
        await self._writer.ask(unit, order=lease.log_id)
        self._forget(lease.log_id, lease.epoch)

    async def read(
        self,
        log_id: LogId,
        *,
        after: int = 0,
        limit: int | None = None,
        size: int | None = None,
    ) -> Sequence[Record]:
        """Return the events after `after`, at most `limit`; an unknown log has none."""
        max_events = _ALL if limit is None else limit
        if size is not None and self._takes_whole_pages:
            max_events = min(max_events, max(_MIN_EVENTS, size // self._body_bytes))
        page = ReadPage(self._sql, log_id, after, max_events, size)
        records, rows = await self._database.read(page)
        return await self._rows.records(log_id, rows, size) if records is None else records

    async def check(self, log_id: LogId, *, after: int, until: int) -> None:
        """Raise StoreCorrupt if an event after `after`, up to `until`, is missing."""
        await self._database.read(CheckRange(self._sql, log_id, after, until))

    async def head(self, log_id: LogId) -> int:
        """Return the number of the newest event, 0 for an unknown log."""
        head = await self._database.read(
            lambda connection: connection.exec_driver_sql(self._sql.head, (log_id,)).scalar()
        )
        return head_of(log_id, head) or 0

    async def erased(self, known: Mapping[LogId, int]) -> set[LogId]:
        """Return the logs that were deleted, or lost text after the given event number."""
        return await self._database.read(partial(erased_since, known))

    async def pending(
        self, *, limit: int, among: Collection[LogId] | None = None
    ) -> Sequence[PendingLog]:
        """Return logs that need a run and whose lease is free or expired, soonest first."""
        if among is not None and not among:
            return []
        now = self._clock.now()
        owners = await self._database.read(
            lambda connection: connection.exec_driver_sql(self._sql.owners, (now,)).scalars().all()
        )
        dead = [owner for owner in owners if is_dead(owner)]
        if dead:  # counted before the logs are sorted: logs of dead owners come last
            await self._writer.write(CountDeaths(self._sql, self._quarantine, dead))
        return await self._database.read(ReadPending(now, dead, limit, among))

    def _submit_later(self, log_id: LogId, appended: Work) -> None:
        """Submit after the large bodies of this append, and of earlier ones, are blobs."""
        previous = self._slow.get(log_id)

        async def put_away() -> None:
            try:
                appended.unit.drafts = await self._drafts.put_away(appended.unit.drafts)
                if previous is not None:
                    await asyncio.wait([previous])
            except BaseException as error:
                self._writer.fail(appended, error)
                raise
            self._writer.submit(appended)

        def forget_task(slow: "asyncio.Task[None]") -> None:
            if self._slow.get(log_id) is slow:
                del self._slow[log_id]
            if not slow.cancelled():
                slow.exception()  # `appended` has it; asyncio would report it as never retrieved

        self._slow[log_id] = slow = asyncio.ensure_future(put_away())
        slow.add_done_callback(forget_task)

    def _appended(self, appended: Work) -> Coroutine[Any, Any, None] | None:
        unit, advance = appended.unit, appended.outcome
        if advance is None:
            if appended.error is None:
                self._forget(unit.log_id, unit.progress.epoch)
            self._loosen([*blobs_of(unit.drafts), *given_for(unit.entries)])
            appended.error = appended.error or lost(unit.log_id)
            return None
        progress = self._held.get(unit.log_id)
        if progress is not None and progress.epoch == unit.progress.epoch:
            progress.known, progress.outside = advance.head, advance.outside
        log_id, drafts = unit.log_id, unit.drafts
        entries = unit.entries if advance.entries is None else advance.entries
        written_at = drafts[0][0] if drafts else Moment(0)
        appended.outcome = records = [
            Record(log_id, seq, written_at, entry.task_id, entry.path, entry.event)
            for seq, entry in enumerate(entries, advance.head - len(entries) + 1)
        ]
        for listener in self._listeners_of_holders:
            listener(records)
        slipped = advance.slipped
        return self._put_before(appended, log_id, slipped) if slipped else None

    async def _put_before(self, appended: Work, log_id: LogId, slipped: Sequence[Row]) -> None:
        """Add the outside events that were written between this append and the one before."""
        appended.outcome = [*await self._rows.outside(log_id, slipped), *appended.outcome]

    def _begun(self, begun: Work) -> None:
        unit = begun.unit
        if begun.outcome is not None:
            self._held[unit.send.log_id], begun.outcome = begun.outcome
            for listener in self._listeners:
                listener(begun.outcome)
            if unit.is_abandoned:
                self._release_abandoned(unit.send.log_id)

    def _sent(self, sent: Work) -> None:
        if sent.outcome is None:
            self._loosen(blobs_of(sent.unit.drafts))
        else:
            for listener in self._listeners:
                listener(sent.outcome)

    def _loosen(self, blobs: Sequence[BlobId]) -> None:
        """Leave the blobs of unwritten events to the sweeper."""
        if blobs:
            task = asyncio.ensure_future(self._loosen_blobs(blobs))
            self._loosening.add(task)  # the loop keeps weak references to tasks only
            task.add_done_callback(self._loosening.discard)

    async def _loosen_blobs(self, blobs: Sequence[BlobId]) -> None:
        with suppress(StoreError):  # the bytes then stay on disk, which loses nothing
            await self._drafts.share(blobs)
            await self._database.write(partial(loosen, blob_ids=blobs, at=self._clock.now()))

    async def _hold(self, lease: Lease, unit: RenewLease | ReleaseLease) -> Sequence[Record]:
        try:
            rows = await self._writer.ask(unit, order=lease.log_id)
        except LeaseLost:
            self._forget(lease.log_id, lease.epoch)
            raise
        return await self._rows.records(lease.log_id, rows)

    def _release_abandoned(self, log_id: LogId) -> None:
        """Release the lease of a cancelled `begin`; the sweep finds the log and runs it."""
        unit = partial(self._surrender, log_id, self._held.pop(log_id).epoch)
        self._writer.submit(Work(unit, order=log_id))

    def _surrender(self, log_id: LogId, epoch: int, connection: Connection) -> None:
        connection.connection.cursor().execute(self._sql.surrender, (log_id, epoch))

    def _forget(self, log_id: LogId, epoch: int) -> None:
        progress = self._held.get(log_id)
        if progress is not None and progress.epoch == epoch:
            del self._held[log_id]

    async def _with_answer(
        self, log_id: LogId, entries: Sequence[Entry], error: AlreadyAnswered
    ) -> AlreadyAnswered:
        """Return the error with the earlier answer, from the log or from the same entries."""
        details = error.details or {}
        stored = await self.read(log_id, after=details["seq"] - 1, limit=1)
        for event in [*(each.event for each in stored), *(each.event for each in entries)]:
            if isinstance(event, QuestionAnswered) and event.question_id == details["question"]:
                return AlreadyAnswered(str(error), details={"answer": dict(event.answer)})
        return error
