"""A log whose lease this process holds: its state, the only way to append to it, and its lease.

Guarantees: the log on disk is always a prefix of the state in memory; events are written in the
order of `add`; no event of this holder is written after another process acquired the log; an
outside event (message, answer, cancel) is applied once. A lease is renewed before it expires while
its log is held; when the store reports that it is lost, the work on that log is cancelled.

How: `add` applies an event to the state immediately and buffers it. `submit` hands the buffer to
the store without waiting; only `commit` waits for the disk. So a tool turn costs one wait, not one
per event (docs/decisions/002). The store returns the written records, among them outside events
that were written in between; `_apply_records` applies those and skips our own. An append renews the
lease too, so `LeaseKeeper` renews only logs that were silent for a third of the lease.

Relies on: the store writes appends of one holder in submission order and checks the epoch of the
lease in the same transaction (docs/decisions/012), so a late renewal costs the work but never
correctness. Outside events commute with the holder's own, because they may be applied later than
their position in the log. If an append fails, the state is ahead of the disk and must be dropped.
The time until which the lease is safe counts from before a request was sent, never from its reply:
a frozen process must not overestimate it.

Shown by tests/engine/test_held_log.py, where every log is folded again and compared, and by
tests/promises/test_lease_renewal.py.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.errors import LeaseLost, StoreError
from penstock.core.events.events import CallSettled, CancelRequested, Entry, Event, Record
from penstock.core.events.history_events import MessagesErased
from penstock.core.events.roles import OUTSIDE, is_outside
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import World
from penstock.core.stored.changes import Change
from penstock.engine.budget import Trees
from penstock.engine.session_state import SessionState
from penstock.store.logs.log import Lease, Log

log = logging.getLogger(__name__)
_MAX_RENEWALS = 128
"""Renewals in flight at once; a thousand at once were measured to take 3 MiB for a moment."""

MOMENT_SECONDS = 0.002
"""How long `submit_later` collects events for one write."""


class HeldLog:
    """Appends to a log and keeps its state, while this process holds the lease.

    A crash loses only events that were not committed, and no reader has received those.
    """

    __slots__ = (
        "__weakref__",
        "_added",
        "_clock",
        "_later",
        "_lease_seconds",
        "_log",
        "_on_cancel",
        "_on_left",
        "_on_lost",
        "_open_changes",
        "_safe_until",
        "_sent",
        "_soon",
        "begins",
        "lease",
        "lost",
        "recovers",
        "state",
        "trees",
    )

    def __init__(
        self, log: Log, lease: Lease, state: SessionState, world: World, *, since: float
    ) -> None:
        self._log = log
        self._clock = world.clock
        self._lease_seconds = world.limits.lease_seconds
        self._safe_until = since + self._lease_seconds
        """Monotonic time until which no other process can acquire the log."""
        self._added: list[Entry] = []
        self._sent: list[tuple[Awaitable[Sequence[Record]], float]] = []
        self._open_changes: dict[CallPath, None] = {}
        """Calls added with a change; their outcome is known after the write."""
        self._soon: asyncio.Handle | None = None
        """The submit that `submit_soon` has scheduled."""
        self._later: asyncio.TimerHandle | None = None
        self._on_cancel: Callable[[TaskId], None] | None = None
        self._on_left: list[Callable[[], object]] = []
        self._on_lost: Callable[[], object] | None = None
        self.lost: LeaseLost | None = None
        """Why the work must stop; None while the lease is held."""
        self.lease = lease
        self.state = state
        self.begins = lease.is_started
        """The current task was started with the lease and has not run yet."""
        self.recovers = lease.crashed
        """The previous holder crashed, and no task has run since."""
        self.trees: Trees | None = None
        """The budgets of trees of tasks, while a task works that may have children."""

    def add(self, event: Event, task_id: TaskId, path: CallPath | None = None) -> None:
        """Apply the event to the state; the next `submit` or `commit` writes it."""
        self._added.append(Entry(event, task_id, path))
        self.state.apply(event, task_id, path, self._clock.now())

    def add_change(
        self, settled: CallSettled, change: Change, task_id: TaskId, path: CallPath
    ) -> None:
        """Add the outcome of a call with its change; the state gets it after the write.

        The change may fail in the store and turn the outcome into an error, so the outcome is not
        known before (docs/decisions/008).
        """
        self._added.append(Entry(settled, task_id, path, change))
        self._open_changes[path] = None

    async def in_order(self) -> None:
        """Wait until every added change has its outcome in the state.

        Call it before settling open calls: a change in flight may still succeed, and a call must
        not be settled twice.
        """
        if self._open_changes:
            await self.commit()

    def submit(self) -> None:
        """Hand all added events to the store, without waiting."""
        # This write includes everything that a scheduled one was waiting to send.
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._added:
            added, self._added = self._added, []
            now = self._clock.monotonic()
            self._sent.append((self._log.append(self.lease, added), now))

    def submit_soon(self) -> None:
        """Submit in the next pass of the event loop, with everything added until then."""
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self.submit)

    def submit_later(self) -> None:
        """Submit within 2 ms, with everything added until then.

        Only for events that can be repeated without harm after a crash. The next `commit` writes
        them too.
        """
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(MOMENT_SECONDS, self.submit)

    def leave(self) -> None:
        """Drop events that `submit_later` still holds; the next holder repeats that work.

        After this, a lost lease and a cancel stop nothing.
        """
        # The second refers to this object: that cycle left 44 blocks of each turn to the collector.
        self._on_lost = self._on_cancel = None
        if self._later is not None:
            self._later.cancel()
            self._later = None
        for callback in self._on_left:
            callback()

    def when_left(self, callback: Callable[[], object]) -> None:
        """Call a function when the activation ends."""
        self._on_left.append(callback)

    async def commit(self) -> int:
        """Wait until all added events are on disk; return the `seq` of the newest one.

        Raises LeaseLost.
        """
        self.submit()
        # Several tasks may commit at once. Each awaits the oldest write; the first one to resume
        # removes it. The identity check keeps a later one from applying its records again.
        while self._sent:
            sent = self._sent[0]
            records = await sent[0]
            if self._sent and self._sent[0] is sent:
                del self._sent[0]
                self._safe_until = sent[1] + self._lease_seconds
                self._apply_records(records)
        return self.state.seq

    async def commit_and_make_sure(self) -> None:
        """Commit, and return only if no other process can hold the log now. Raises LeaseLost."""
        await self.commit()
        # The commit may have taken longer than the lease lasts (a frozen process, a slow disk).
        # Effects outside the store cannot be fenced, so ask once more before the write starts.
        await self.make_sure()

    async def refresh(self) -> None:
        """Renew the lease and apply outside events. Raises LeaseLost."""
        now = self._clock.monotonic()
        records = await self._log.renew(self.lease, after=self.state.seq)
        self._safe_until = now + self._lease_seconds
        self._apply_records(records)

    async def keep(self) -> None:
        """Refresh; if the lease is lost, stop the work."""
        try:
            await self.refresh()
        except LeaseLost as lost:
            self.lose(lost)

    async def make_sure(self) -> None:
        """Return only if no other process can hold the log now. Raises LeaseLost.

        The process may have been frozen. Effects outside the store cannot be fenced, so a write
        calls this directly before it starts.
        """
        if self._clock.monotonic() >= self._safe_until:
            await self.refresh()

    async def release(self, *, wake_at: Moment | None) -> bool:
        """Release the lease; return False if outside events arrived that must be handled first."""
        await self.commit()
        late = await self._log.release(self.lease, head=self.state.seq, wake_at=wake_at)
        self._apply_records(late)
        return not late

    def when_cancelled(self, callback: Callable[[TaskId], None]) -> None:
        """Call `callback` with the id of each task for which a cancel arrives."""
        self._on_cancel = callback

    def when_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` once when another process acquired the log or the log was erased."""
        self._on_lost = callback

    def lose(self, lost: LeaseLost) -> None:
        """Record that the lease is lost, and stop the work once."""
        if self.lost is None:
            self.lost = lost
            if self._on_lost is not None:
                self._on_lost()

    def is_silent(self, seconds: float) -> bool:
        """Whether the lease was not acquired, used or renewed for `seconds`."""
        return self._clock.monotonic() >= self._safe_until - self._lease_seconds + seconds

    def _apply_records(self, records: Sequence[Record]) -> None:
        state = self.state
        for record in records:
            if (
                self._open_changes
                and record.path in self._open_changes
                and type(record.event) is CallSettled
            ):
                del self._open_changes[record.path]
                state.apply(record.event, record.task_id, record.path, record.at)
            # A renewal and an append in flight may both return the same outside event.
            if record.seq <= state.seq:
                continue
            state.seq = record.seq
            # Most records are our own, and their type tells that.
            if type(record.event) not in OUTSIDE or not is_outside(record.event):
                continue
            state.apply(record.event, record.task_id, record.path, record.at)
            state.is_stale = state.is_stale or type(record.event) is MessagesErased
            if isinstance(record.event, CancelRequested) and self._on_cancel and record.task_id:
                self._on_cancel(record.task_id)


class Leases:
    """Acquires leases for this process, and releases them before their work is done."""

    def __init__(self, log: Log, owner: str) -> None:
        self._log = log
        self._owner = owner
        self._unreleased: dict[LogId, Lease] = {}
        """Leases that the store failed to release; released before the log is acquired again."""

    async def acquire(self, log_id: LogId) -> Lease | None:
        """Acquire a lease. Release an older one of ours first, or it would count as a crash."""
        if unreleased := self._unreleased.get(log_id):
            await self._log.surrender(unreleased)
            self._unreleased.pop(log_id, None)
        return await self._log.acquire(log_id, self._owner)

    async def surrender(self, lease: Lease) -> None:
        """Release a lease whose log still has work; later, if the store fails now."""
        try:
            await self._log.surrender(lease)
        except StoreError as error:
            log.debug("the lease of log %s could not be released yet: %s", lease.log_id, error)
            self._unreleased[lease.log_id] = lease
        else:
            self._unreleased.pop(lease.log_id, None)

    async def surrender_all(self, leases: Sequence[Lease]) -> None:
        """Release some leases, and those that could not be released before."""
        for lease in [*leases, *self._unreleased.values()]:
            await self.surrender(lease)


class LeaseKeeper:
    """Renews every lease that was silent for `seconds`, with one timer for all.

    At most one request per lease is in flight, or requests would pile up at a slow store. Each
    renewer takes the next due lease, longest silent first. A failed request is logged and repeated
    at the next check.
    """

    def __init__(self, held: Mapping[LogId, HeldLog], seconds: float) -> None:
        self._held = held
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._due: dict[LogId, HeldLog] = {}
        """Leases waiting for a free renewer, longest silent first."""
        self._renewing: set[LogId] = set()
        self._renewers: set[asyncio.Task[None]] = set()

    def watch(self) -> None:
        """Start the timer if it is not running. Call it after a log was acquired."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._check)

    async def rest(self) -> None:
        """Wait until no renewal is in flight."""
        self._due.clear()
        await asyncio.gather(*self._renewers, return_exceptions=True)

    def _check(self) -> None:
        self._timer = None
        for log_id, held in self._held.items():
            is_asked = held.lost is not None or log_id in self._renewing
            if not is_asked and held.is_silent(self._seconds):
                self._due[log_id] = held
        for _ in range(min(len(self._due), _MAX_RENEWALS - len(self._renewers))):
            renewer = asyncio.ensure_future(self._renew_due())
            self._renewers.add(renewer)
            renewer.add_done_callback(self._renewers.discard)
        if self._held:
            self.watch()

    async def _renew_due(self) -> None:
        while self._due:
            log_id = next(iter(self._due))
            held = self._due.pop(log_id)
            # The log may have been released, or released and acquired again, while it waited.
            if self._held.get(log_id) is held:
                await self._renew(log_id, held)

    async def _renew(self, log_id: LogId, held: HeldLog) -> None:
        self._renewing.add(log_id)
        try:
            await held.keep()
        except StoreError as error:
            log.warning("the lease of log %s could not be renewed yet: %s", log_id, error)
        finally:
            self._renewing.remove(log_id)
