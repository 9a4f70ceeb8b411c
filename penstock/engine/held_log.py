"""A log in hand: its lease, its state, and the one way to write it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.events.events import (
    CallSettled,
    CancelRequested,
    Entry,
    Event,
    Record,
    is_outside,
)
from penstock.core.ids import TaskId
from penstock.core.limits import World
from penstock.core.signals import LeaseLost
from penstock.core.state.changes import Change
from penstock.engine.state import SessionState
from penstock.store.logs.log import Lease, Log

MOMENT_SECONDS = 0.002


class HeldLog:
    """A log whose lease this process holds.

    `add` takes an event into the state at once and `submit` sends what was added on its way; only
    `commit` waits for the disk. The order never changes, so whatever is on disk follows from what
    is on disk before it, and a crash merely forgets an end that nobody was told of.
    """

    __slots__ = (
        "__weakref__",
        "_added",
        "_clock",
        "_is_due",
        "_later",
        "_lease_seconds",
        "_log",
        "_on_cancel",
        "_on_lost",
        "_open",
        "_sent",
        "_sure_until",
        "begins",
        "lease",
        "lost",
        "recovers",
        "state",
    )

    def __init__(
        self, log: Log, lease: Lease, state: SessionState, world: World, *, since: float
    ) -> None:
        self._log = log
        self._clock = world.clock
        self._lease_seconds = world.limits.lease_seconds
        self._sure_until = since + self._lease_seconds
        """On the monotonic clock: until then nobody else can have the log."""
        self._added: list[Entry] = []
        self._sent: list[tuple[Awaitable[Sequence[Record]], float]] = []
        self._open: dict[CallPath, None] = {}
        """Calls whose outcome is known once they are on disk."""
        self._is_due = False
        """A `submit_soon` is still to be done."""
        self._later: asyncio.TimerHandle | None = None
        self._on_cancel: Callable[[TaskId], None] | None = None
        self._on_lost: Callable[[], object] | None = None
        self.lost: LeaseLost | None = None
        """Why the work here has to stop, if it has."""
        self.lease = lease
        self.state = state
        self.begins = lease.begun
        """The task at hand was started with the lease, and nothing was done since."""
        self.recovers = lease.crashed
        """The holder before this one was cut, and nothing was done since."""

    def add(self, event: Event, task_id: TaskId, path: CallPath | None = None) -> None:
        """Take the event in; it is written with the next `submit` or `commit`."""
        self._added.append(Entry(event, task_id, path))
        self.state.apply(event, task_id, path, self._clock.now())

    def add_change(
        self, settled: CallSettled, change: Change, task_id: TaskId, path: CallPath
    ) -> None:
        """Take in a call that changes a store: its outcome is in the state once it is on disk."""
        self._added.append(Entry(settled, task_id, path, change))
        self._open[path] = None

    async def in_order(self) -> None:
        """Return when every call that was added so far has its outcome in the state.

        Whoever settles what has none waits for it: a change that is on its way may still be made.
        """
        if self._open:
            await self.commit()

    def submit(self) -> None:
        """Send what was added on its way, without waiting."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._added:
            added, self._added = self._added, []
            now = self._clock.monotonic()
            self._sent.append((self._log.append(self.lease, added), now))

    def submit_soon(self) -> None:
        """Send what was added on its way, with all that is added before others have their turn."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._submit_due)

    def submit_later(self) -> None:
        """Send what was added on its way within a moment, with all that is added until then.

        For what is done again at no harm when a crash forgets it: the next `commit` takes it along.
        """
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(MOMENT_SECONDS, self.submit)

    def leave(self) -> None:
        """Forget what was to be sent later: whoever holds the log next does it again.

        Nothing is stopped here any more.
        """
        self._on_lost = None
        if self._later is not None:
            self._later.cancel()
            self._later = None

    async def commit(self) -> int:
        """Wait until all that was added is on disk; returns the `seq` of the newest event.

        Raises LeaseLost.
        """
        self.submit()
        while self._sent:
            sent = self._sent[0]
            records = await sent[0]
            if self._sent and self._sent[0] is sent:
                del self._sent[0]
                self._sure_until = sent[1] + self._lease_seconds
                self._take(records)
        return self.state.seq

    async def refresh(self) -> None:
        """Keep the lease, and learn what came from outside. Raises LeaseLost."""
        now = self._clock.monotonic()
        records = await self._log.renew(self.lease, after=self.state.seq)
        self._sure_until = now + self._lease_seconds
        self._take(records)

    async def keep(self) -> None:
        """Refresh, and stop the work here when the lease is lost."""
        try:
            await self.refresh()
        except LeaseLost as lost:
            self.lose(lost)

    async def make_sure(self) -> None:
        """Return if nobody else can have the log at this moment; a process may have been frozen.

        Raises LeaseLost.
        """
        if self._clock.monotonic() >= self._sure_until:
            await self.refresh()

    async def release(self, *, wake_at: Moment | None) -> bool:
        """Give the log back; False when something came from outside that must be done first."""
        await self.commit()
        late = await self._log.release(self.lease, head=self.state.seq, wake_at=wake_at)
        self._take(late)
        return not late

    def when_cancelled(self, tell: Callable[[TaskId], None]) -> None:
        """Call `tell` with each task that somebody wants to end."""
        self._on_cancel = tell

    def when_lost(self, tell: Callable[[], object]) -> None:
        """Call `tell` once when another process has the log, or the log was erased."""
        self._on_lost = tell

    def lose(self, lost: LeaseLost) -> None:
        """Stop the work on a log that is held here no more."""
        if self.lost is None:
            self.lost = lost
            if self._on_lost is not None:
                self._on_lost()

    def is_silent(self, seconds: float) -> bool:
        """Whether the lease was neither taken, written to nor renewed for so long."""
        return self._clock.monotonic() >= self._sure_until - self._lease_seconds + seconds

    def _submit_due(self) -> None:
        self._is_due = False
        self.submit()

    def _take(self, records: Sequence[Record]) -> None:
        state = self.state
        for record in records:
            if self._open and record.path in self._open and type(record.event) is CallSettled:
                del self._open[record.path]
                state.apply(record.event, record.task_id, record.path, record.at)
            if record.seq <= state.seq:
                continue
            state.seq = record.seq
            if not is_outside(record.event):
                continue
            state.apply(record.event, record.task_id, record.path, record.at)
            if isinstance(record.event, CancelRequested) and self._on_cancel and record.task_id:
                self._on_cancel(record.task_id)
