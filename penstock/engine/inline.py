"""The launcher in this process: bounded, fair between sessions, awake when something is due."""

import asyncio
import logging
from collections import OrderedDict

from penstock.core.clock import Moment
from penstock.core.errors import StoreClosed, StoreCorrupt, StoreError
from penstock.core.ids import LogId
from penstock.core.limits import World
from penstock.engine.activation import Activations
from penstock.store.logs.log import Log

log = logging.getLogger(__name__)


class InlineLauncher:
    """Runs activations as tasks of this event loop.

    Logs wait in turn: a log that is woken while it waits keeps its place, and one that is at work
    here is told to look at what came. What no `wake` told of (a crash, a timer, another process) is
    found by a sweep of the logs that need a run: of all, or for who attends of those that were
    woken once. A log that does not read back is left alone until somebody hands something in to it.
    """

    def __init__(self, log: Log, activations: Activations, world: World) -> None:
        self._log = log
        self._activations = activations
        self._clock = world.clock
        self._limits = world.limits
        self._waiting: OrderedDict[LogId, None] = OrderedDict()
        self._running: dict[LogId, asyncio.Task[None]] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._woken: set[LogId] = set()
        self._broken: set[LogId] = set()
        self._told: set[LogId] | None = None
        """All that it may work on; None is everything."""
        self._timers: dict[LogId, asyncio.Task[None]] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._closing = False

    def wake(self, log_id: LogId, *, not_before: Moment | None = None) -> None:
        """See to it that the log is looked at soon, or then."""
        if self._closing:
            return
        if self._told is not None:
            self._told.add(log_id)
        if not_before is not None and (wait := not_before - self._clock.now()) > 0:
            self._set_timer(log_id, wait / 1000)
        elif log_id in self._running:
            self._woken.add(log_id)
            if self._activations.is_held(log_id):
                self._own(asyncio.create_task(self._activations.look(log_id)))
        else:
            self._waiting[log_id] = None
            self._start()

    def is_blocked(self, log_id: LogId) -> bool:
        """Whether a log was left to others because something that it needs is missing here."""
        return self._activations.is_blocked(log_id)

    @property
    def is_at_work(self) -> bool:
        """Whether it was opened, was not closed, and still looks for logs that need a run."""
        return not (self._closing or self._sweeper is None or self._sweeper.done())

    async def open(self) -> None:
        """Begin to work, with what was left by those before."""
        self._sweeper = asyncio.create_task(self._sweep())

    async def attend(self) -> None:
        """Begin to work on what it is told of, and what that waits for: the rest is for others."""
        self._told = set()
        await self.open()

    async def rest(self) -> None:
        """Return when nothing is at work here any more, and nothing waits for its turn."""
        while self._running:
            await asyncio.wait([*self._running.values()])

    async def close(self) -> None:
        """Take no new work, let what runs end for a while, and give every lease back."""
        self._closing = True
        self._waiting.clear()
        await self._activations.close()
        idle = [*self._timers.values(), *filter(None, [self._sweeper])]
        for task in idle:
            task.cancel()
        running = [*self._running.values(), *self._looking]
        if running:
            await asyncio.wait(running, timeout=self._limits.shutdown_seconds)
        for task in running:
            task.cancel("the process stops")
        await asyncio.gather(*running, *idle, return_exceptions=True)
        await self._activations.rest()

    def _start(self) -> None:
        while self._waiting and not self._closing and len(self._running) < self._limits.activations:
            log_id, _ = self._waiting.popitem(last=False)
            if log_id not in self._running:
                self._running[log_id] = asyncio.create_task(self._run(log_id))

    async def _run(self, log_id: LogId) -> None:
        wake_at = None
        try:
            wake_at = await self._activations.run(log_id)
            self._broken.discard(log_id)
            self._wake_awaited(log_id)
        except StoreClosed:
            log.debug("log %s was left: the store is closed", log_id)
        except StoreCorrupt as error:
            self._broken.add(log_id)
            log.error("log %s is left alone: %s", log_id, error)  # noqa: TRY400  says it all
        except StoreError as error:
            said = "log %s could not be worked on; it is tried again: %s"
            log.error(said, log_id, error)  # noqa: TRY400  comes again and again
        finally:
            del self._running[log_id]
            if log_id in self._woken:
                self._woken.discard(log_id)
                self._waiting[log_id] = None
            elif wake_at is not None:
                self.wake(log_id, not_before=wake_at)
            self._start()

    def _wake_awaited(self, log_id: LogId) -> None:
        """Have the runs go on that a log waits for, where no sweep finds them."""
        if self._told is not None:
            for run in sorted(self._activations.awaited(log_id) - self._told):
                self.wake(run)

    async def _sweep(self) -> None:
        while True:
            try:
                await self._activations.drop_erased()
                await self._look_around()
            except StoreError as error:
                said = "the logs that need a run could not be read; it is tried again: %s"
                log.error(said, error)  # noqa: TRY400  comes again and again
            await self._clock.sleep(self._limits.sweep_seconds)

    async def _look_around(self) -> None:
        # Broken and blocked logs stay pending and come first: without their number in the limit
        # they would fill it, and no other log would ever be found. A sweep over 5,000 blocked logs
        # takes 35 ms; a `NOT IN` would need a parameter for each, and SQLite takes 32,766.
        most = 2 * self._limits.activations + len(self._broken) + self._activations.blocked
        found = await self._log.pending(limit=most, among=self._told)
        if len(found) < most:
            waiting = {pending.log_id for pending in found}
            self._broken &= waiting
            self._activations.forget_blocked(waiting)
        for pending in found:
            log_id = pending.log_id
            is_left = log_id in self._broken or self._activations.is_blocked(log_id)
            if not (is_left or log_id in self._running):
                self.wake(pending.log_id, not_before=pending.wake_at)

    def _set_timer(self, log_id: LogId, seconds: float) -> None:
        """Wake the log then; what is due later than the next sweep is left to that."""
        if old := self._timers.pop(log_id, None):
            old.cancel()
        if seconds <= self._limits.sweep_seconds:
            self._timers[log_id] = asyncio.create_task(self._wake_later(log_id, seconds))

    async def _wake_later(self, log_id: LogId, seconds: float) -> None:
        await self._clock.sleep(seconds)
        del self._timers[log_id]
        self.wake(log_id)

    def _own(self, task: "asyncio.Task[None]") -> None:
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)
