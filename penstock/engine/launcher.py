"""Launchers start activations of logs that have work: the port, and the launcher of this process.

`InlineLauncher` guarantees: at most `limits.activations` logs run at once; one log never runs twice
at once here; logs start in the order in which they were woken, and a log that is woken again keeps
its place. Every log that needs a run gets one, also after a crash of its process. A log that waits
for a slot has no lease, so another process with a free slot can run it.

How: `wake` enqueues a log; a log that is running is refreshed instead and run once more afterwards.
A sweep every `limits.sweep_seconds` reads pending logs from the store. It finds work that no `wake`
reported: from a crash, a timer or another process. Correctness depends on the sweep alone; `wake`
only saves the wait.

Relies on: leases keep two processes off one log. A log that does not read back is skipped until an
event is written to it, or each sweep would fail on it again.

Shown by tests/engine/test_launcher.py, tests/contracts/test_launcher.py and tests/chaos.
"""

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from typing import Protocol

from penstock.core.clock import Moment
from penstock.core.errors import StoreClosed, StoreCorrupt, StoreError
from penstock.core.ids import LogId
from penstock.core.limits import World
from penstock.engine.activation import Activations
from penstock.store.logs.log import Log

log = logging.getLogger(__name__)


class Launcher(Protocol):
    """Starts activations.

    Contract: after `open`, every log that needs a run gets one, also without a `wake` and after a
    crash. After `attend`, only woken logs do. A log never runs twice at once. `wake` may be called
    at any time and any number of times.
    """

    def wake(self, log_id: LogId, *, not_before: Moment | None = None) -> None:
        """Run the log soon, or at `not_before`."""
        ...

    def is_blocked(self, log_id: LogId) -> bool:
        """Return whether the log's task needs something that this process lacks."""
        ...

    @property
    def is_at_work(self) -> bool:
        """Whether it is open and finds logs that need a run."""
        ...

    async def open(self) -> None:
        """Start, beginning with unfinished work of earlier processes."""
        ...

    async def attend(self) -> None:
        """Start, but work only on logs that are woken here and on the runs that they wait for."""
        ...

    async def rest(self) -> None:
        """Wait until no log is running or queued."""
        ...

    async def close(self, *, seconds: float | None = None) -> None:
        """Refuse new work, stop what runs after so many seconds, and release every lease."""
        ...


class InlineLauncher:
    """Runs activations as tasks of this event loop.

    After `open` it works on every pending log, after `attend` only on logs that were woken here
    and on the runs that these wait for.
    """

    def __init__(self, log: Log, activations: Activations, world: World) -> None:
        self._log = log
        self._activations = activations
        self._clock = world.clock
        self._limits = world.limits
        self._waiting: OrderedDict[LogId, None] = OrderedDict()
        self._running: dict[LogId, asyncio.Task[None]] = {}
        self._refreshing: set[asyncio.Task[None]] = set()
        self._woken: set[LogId] = set()
        self._broken: set[LogId] = set()
        self._attended: set[LogId] | None = None
        """The logs that it may work on; None means all."""
        self._timers: dict[LogId, asyncio.Task[None]] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._closing = False

    def wake(self, log_id: LogId, *, not_before: Moment | None = None) -> None:
        """Run the log as soon as there is a free slot, or at `not_before`."""
        if self._closing:
            return
        if self._attended is not None:
            self._attended.add(log_id)
        if not_before is not None and (wait := not_before - self._clock.now()) > 0:
            self._set_timer(log_id, wait / 1000)
        elif log_id in self._running:
            self._woken.add(log_id)
            if self._activations.is_held(log_id):
                self._keep_task(asyncio.create_task(self._activations.refresh(log_id)))
        elif log_id in self._activations.begun:
            self._run(log_id)
        else:
            self._waiting[log_id] = None
            self._start()

    def is_blocked(self, log_id: LogId) -> bool:
        """Return whether the log's task needs something that this process lacks."""
        return self._activations.is_blocked(log_id)

    @property
    def is_at_work(self) -> bool:
        """Whether it is open and its sweep is running."""
        return not (self._closing or self._sweeper is None or self._sweeper.done())

    async def open(self) -> None:
        """Start the sweep, which also finds the work of dead processes."""
        self._sweeper = asyncio.create_task(self._sweep())

    async def attend(self) -> None:
        """Start, but work only on logs that are woken here and on the runs that they wait for."""
        self._attended = set()
        await self.open()

    async def rest(self) -> None:
        """Wait until no log is running or queued."""
        while self._running:
            await asyncio.wait([*self._running.values()])

    async def close(self, *, seconds: float | None = None) -> None:
        """Refuse new work, let running tasks continue for a time, and release all leases.

        The time is `limits.shutdown_seconds` if `seconds` is None.
        """
        self._closing = True
        self._waiting.clear()
        # Logs that `begin` acquired were just dropped from the queue: release their leases.
        await self._activations.close()
        idle = [*self._timers.values(), *filter(None, [self._sweeper])]
        for task in idle:
            task.cancel()
        running = [*self._running.values(), *self._refreshing]
        if running:
            grace = self._limits.shutdown_seconds if seconds is None else seconds
            await asyncio.wait(running, timeout=grace)
        for run in running:
            run.cancel("the process stops")
        await asyncio.gather(*running, *idle, return_exceptions=True)
        await self._activations.rest()
        with suppress(StoreError):  # a process that runs for one message leaves a snapshot, too
            await self._activations.folds.save(self._activations.states.next_due)

    def _start(self) -> None:
        while self._waiting and not self._closing and self._activations.free_slots:
            log_id, _ = self._waiting.popitem(last=False)
            if log_id not in self._running:
                self._activations.free_slots -= 1
                self._run(log_id)

    def _run(self, log_id: LogId) -> None:
        """Run a log that has a slot."""
        self._running[log_id] = asyncio.create_task(self._activations.run(log_id, self._ended))

    def _ended(self, log_id: LogId, wake_at: Moment | None, error: Exception | None) -> None:
        """Continue after a run: report its error, and run the log again if it is due."""
        del self._running[log_id]
        self._activations.free_slots += 1
        if error is not None:
            self._report(log_id, error)
        else:
            self._broken.discard(log_id)
            self._wake_awaited(log_id)
        # Woken while it ran: the activation may have read the log before the event came.
        if log_id in self._woken:
            self._woken.discard(log_id)
            self.wake(log_id)
        elif wake_at is not None:
            self.wake(log_id, not_before=wake_at)
        self._start()

    def _report(self, log_id: LogId, error: Exception) -> None:
        match error:
            case StoreClosed():
                log.debug("log %s was not finished: the store is closed", log_id)
            case StoreCorrupt():
                self._broken.add(log_id)
                log.error("log %s is skipped: %s", log_id, error)
            case StoreError():
                message = "log %s could not be run; the next sweep tries again: %s"
                log.error(message, log_id, error)
            case _:
                log.error("the run of log %s failed", log_id, exc_info=error)

    def _wake_awaited(self, log_id: LogId) -> None:
        """Wake the runs that a log waits for; after `attend` no sweep would find them."""
        if self._attended is not None:
            for run in sorted(self._activations.awaited(log_id) - self._attended):
                self.wake(run)

    async def _sweep(self) -> None:
        while True:
            try:
                await self._activations.states.drop_erased()
                await self._wake_pending()
                await self._activations.folds.save(self._activations.states.next_due)
            except StoreError as error:
                message = "pending logs could not be read; the next sweep tries again: %s"
                log.error(message, error)  # noqa: TRY400  repeats until the store works
            await self._clock.sleep(self._limits.sweep_seconds)

    async def _wake_pending(self) -> None:
        # Broken and blocked logs stay pending and come first: without their number in the limit
        # they would fill it, and no other log would ever be found. A sweep over 5,000 blocked logs
        # takes 35 ms; a `NOT IN` would need a parameter for each, and SQLite takes 32,766.
        limit = 2 * self._limits.activations + len(self._broken) + self._activations.blocked
        due = await self._log.pending(limit=limit, among=self._attended)
        if len(due) < limit:
            waiting = {pending.log_id for pending in due}
            self._broken &= waiting
            self._activations.forget_blocked(waiting)
        for pending in due:
            log_id = pending.log_id
            is_left = log_id in self._broken or self._activations.is_blocked(log_id)
            if not (is_left or log_id in self._running):
                self.wake(pending.log_id, not_before=pending.wake_at)

    def _set_timer(self, log_id: LogId, seconds: float) -> None:
        """Wake the log after `seconds`, unless the next sweep comes first."""
        if old := self._timers.pop(log_id, None):
            old.cancel()
        if seconds <= self._limits.sweep_seconds:
            self._timers[log_id] = asyncio.create_task(self._wake_later(log_id, seconds))

    async def _wake_later(self, log_id: LogId, seconds: float) -> None:
        await self._clock.sleep(seconds)
        del self._timers[log_id]
        self.wake(log_id)

    def _keep_task(self, task: "asyncio.Task[None]") -> None:
        # The event loop holds weak references to tasks only; `close` waits for these, too.
        self._refreshing.add(task)
        task.add_done_callback(self._refreshing.discard)
