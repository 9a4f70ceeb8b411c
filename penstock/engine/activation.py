"""Activations: acquire the lease of a log, fold it, run its tasks, release the lease.

Guarantees: one process at a time works on a log; an error of a task's body fails only that task,
and the next task gets its turn. A StoreError, a lack of files or threads, and Blocked leave the
task pending instead. A lease that ends without a crash is released and does not count as one.

How: `run` acquires the lease, `_hold` builds a HeldLog and cancels the work when the lease is lost,
`_until_done` runs tasks until none has anything to do. `release` refuses while the log has new
outside events, so a late event is processed before the lease is free.

Relies on: the store fences appends by the epoch of the lease (docs/decisions/012), so work that
continues after a lost lease writes nothing. A signal (Cancel, LeaseLost, Blocked) derives from
BaseException, so `except Exception` does not catch it, and `run_to_end` raises it again if a tool
swallowed it. It would break if a body committed events after its task ended, or if a lease were
released before its log's submitted events are written.

Shown by tests/engine/test_activation.py, tests/promises/test_lease_renewal.py and tests/chaos.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial

from penstock.core.clock import Moment
from penstock.core.errors import Blocked, Cancel, LeaseLost, StoreError
from penstock.core.events.events import (
    Entry,
    Record,
    TaskBlocked,
    TaskEnded,
    TaskResumed,
)
from penstock.core.exhaustion import exhaustion_of, raise_exhaustion
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import World
from penstock.core.task import Missing, names_of
from penstock.engine.cold_folds import ColdFolds
from penstock.engine.held_log import HeldLog, LeaseKeeper, Leases
from penstock.engine.session_state import StateCache
from penstock.engine.suspend import expire, next_expiry, withdraw
from penstock.engine.task_body import (
    MissingParts,
    QueueEnds,
    TaskBody,
    TaskStop,
    cancelled,
    crashed,
    failed,
    internal_error,
)
from penstock.engine.task_state import TaskState
from penstock.store.logs.log import Lease, Log
from penstock.store.logs.quarantine import RENEWALS, SUSPECT

log = logging.getLogger(__name__)
FAULT = "the runtime failed; its log has the details"
Ended = Callable[[LogId, Moment | None, Exception | None], None]
"""Receives the end of a run: when the log is due again, if ever, and what broke the run off."""


class Activations:
    """Runs the work on logs in this process, one activation per log."""

    def __init__(self, log: Log, body: TaskBody, world: World, *, owner: str) -> None:
        self._log = log
        self._body = body
        self._world = world
        self._clock = world.clock
        self._owner = owner
        self._limits = world.limits
        self._held: dict[LogId, HeldLog] = {}
        self._stops: dict[LogId, TaskStop] = {}
        """Of the tasks that run here."""
        self._queue_ends = QueueEnds(body.notify)
        self._leases = Leases(log, owner)
        self._keeper = LeaseKeeper(self._held, world.limits.lease_seconds / RENEWALS)
        self.folds = ColdFolds(log)
        self.states = StateCache(log, self._held, self.folds.folded)
        """States of logs that no activation works on. `observe` follows this process's commits."""
        self.free_slots = world.limits.activations
        self.begun: dict[LogId, tuple[Lease, float]] = {}
        """Leases acquired by `begin`, with the time. Each has a slot; the next `run` uses both."""
        self._blocked: dict[LogId, MissingParts] = {}
        """Logs whose task needs something that this process lacks."""
        self._is_closing = False

    async def run(self, log_id: LogId, ended: Ended) -> None:
        """Run every task of a log that can run, and report the end to `ended`."""
        wake_at: Moment | None = None
        failure: Exception | None = None
        try:
            wake_at = await self._run(log_id)
        except Exception as error:
            failure = error
        finally:
            # A callback of this coroutine's task would run in the next pass of the event loop,
            # which costs a hundredth of a turn.
            ended(log_id, wake_at, failure)

    async def _run(self, log_id: LogId) -> Moment | None:
        now = self._clock.monotonic()
        if log_id in self.begun:
            lease, now = self.begun.pop(log_id)
        elif (acquired := await self._leases.acquire(log_id)) is None:
            return None
        else:
            lease = acquired
        try:
            return await self._hold(lease, now)
        except LeaseLost as lost:
            await self._report_lost(log_id, lost)
        except Blocked as blocked:
            await self._leave_blocked(lease, blocked)
        except asyncio.CancelledError:
            if self._is_closing:
                await self._leases.surrender(lease)
            # Only `close` may cancel an activation. After any other cancellation the lease expires,
            # which counts as a crash, because nothing is known about the state of the work.
            raise
        except StoreError:
            await self._leases.surrender(lease)
            raise
        except Exception as error:
            if (lack := exhaustion_of(error)) is not None:
                await self._leases.surrender(lease)
                raise lack from error
            log.exception("the work on log %s broke off", log_id)
        return None

    async def begin(
        self, log_id: LogId, entries: Sequence[Entry], *, head: int
    ) -> Sequence[Record] | None:
        """Write the first events of a task and acquire the lease in one write; `run` continues.

        Returns None, with nothing written, if the log changed, is held or must wait for a slot (a
        lease would run out meanwhile): then append the message and wake the launcher.
        """
        if self._is_closing or not self.free_slots:
            return None
        now = self._clock.monotonic()
        self.free_slots -= 1
        started = None
        try:
            started = await self._log.begin(log_id, entries, self._owner, head=head)
        finally:
            if started is None:
                self.free_slots += 1
        if started is None:
            return None
        lease, records = started
        self.begun[log_id] = (lease, now)
        if self._is_closing:  # `close` ran during the write and did not see this lease
            await self.close()
        return records

    async def close(self) -> None:
        """Refuse new work, and release the leases that no `run` has used."""
        self._is_closing = True
        unused = [lease for lease, _ in self.begun.values()]
        self.begun.clear()
        await self._leases.surrender_all(unused)

    async def rest(self) -> None:
        """Wait until no renewal is in flight."""
        await self._keeper.rest()

    async def ensure_readable(self, log_id: LogId) -> None:
        """Fold a log into the cache before something is appended to it.

        Raises StoreCorrupt if the log cannot be read, so that the sender gets the error immediately
        and not after the event was accepted.
        """
        if log_id not in self.begun:
            await self.states.ensure_readable(log_id)

    def awaited(self, log_id: LogId) -> set[LogId]:
        """Return the runs that a cached log waits for; empty if the log is not cached."""
        state = self.states.find(log_id)
        current = None if state is None else state.current
        return set() if current is None else {LogId(run_id) for run_id in current.waits.awaited}

    async def newest_agent(self, log_id: LogId) -> str:
        """Return the agent that has a conversation now. Folds the log if no run here has it."""
        held = self._held.get(log_id)
        if (state := held.state if held else self.states.find(log_id)) is None:
            state = await self.folds.folded(log_id, await self._log.head(log_id))
        return state.agents.newest

    def is_blocked(self, log_id: LogId) -> bool:
        """Return whether the log's task still needs something that this process lacks."""
        lack = self._blocked.get(log_id)
        if lack is not None and self._body.is_available(log_id, lack):
            del self._blocked[log_id]
        return log_id in self._blocked

    @property
    def blocked(self) -> int:
        """The number of logs whose task needs something that this process lacks."""
        return len(self._blocked)

    def forget_blocked(self, pending: Collection[LogId]) -> None:
        """Forget the missing parts of logs that are no longer pending."""
        for log_id in self._blocked.keys() - set(pending):
            del self._blocked[log_id]

    def is_held(self, log_id: LogId) -> bool:
        """Return whether an activation here works on the log."""
        return log_id in self._held

    async def refresh(self, log_id: LogId) -> None:
        """Read outside events into a log that an activation here works on."""
        if held := self._held.get(log_id):
            try:
                await held.keep()
            except StoreError as error:
                log.debug("log %s could not be refreshed: %s", log_id, error)

    def forget(self, log_id: LogId) -> None:
        """Drop everything cached about a log in which something was erased."""
        self.states.forget(log_id)
        self._blocked.pop(log_id, None)

    async def _leave_blocked(self, lease: Lease, blocked: Blocked) -> None:
        """Release the lease, so that a process that has the missing parts can acquire it."""
        message = "log %s is left to a process that has what is missing here: %s"
        log.warning(message, lease.log_id, names_of(blocked.blocked_on))
        await self._leases.surrender(lease)

    async def _report_lost(self, log_id: LogId, lost: LeaseLost) -> None:
        """Log why the work stops. An erased log is expected, so it is not a warning."""
        if await self._log.head(log_id):
            log.warning("the work on log %s stops: %s", log_id, lost)
        else:
            log.info("the work on log %s stops: it was erased", log_id)

    async def _hold(self, lease: Lease, since: float) -> Moment | None:
        state = await self.states.take(lease)
        if lease.recoveries >= SUSPECT:
            message = "log %s resumes on probation: the process died %d times in a row at its place"
            log.warning(message, lease.log_id, lease.recoveries)
        held = HeldLog(self._log, lease, state, self._world, since=since)
        self._held[lease.log_id] = held
        self._keeper.watch()
        here = asyncio.current_task()
        assert here is not None  # noqa: S101  an activation runs in a task
        held.when_lost(partial(here.cancel, "the log was lost"))
        held.when_cancelled(partial(self._cancel, held))
        try:
            return await self._until_done(held)
        except asyncio.CancelledError:
            # The lease keeper cancels once; a second request comes from `close` and must win.
            if held.lost is None or here.cancelling() > 1:
                raise
            raise held.lost from None
        finally:
            held.leave()
            del self._held[lease.log_id]
            if held.lost is not None:
                here.uncancel()

    async def _until_done(self, held: HeldLog) -> Moment | None:
        # A crash between the commit of an end and its notification left the waiters uninformed.
        if (state := held.state).current is not None:
            await self._notify(held, state.current)
        while True:
            if state.has_questions:
                await expire(held, self._clock)
            while (task := state.next_task()) is not None:
                if state.omits and state.lacks(task):
                    state = held.state = await self.folds.whole(state)
                    continue
                await self._check(held, task)
                await self._work_or_block(held, task)
                if state.has_questions:
                    await expire(held, self._clock)
            wake_at = next_expiry(state)
            if await held.release(wake_at=wake_at):
                break
        self.states.keep(state)
        return wake_at

    async def _check(self, held: HeldLog, task: TaskState) -> None:
        """Raise Blocked if this process lacks what the task needs; `begin` checks its own."""
        if held.begins or task.cancel_requested:
            return
        if (lack := self._body.find_missing(held.state, task)) is not None:
            self._blocked[held.state.log_id] = lack
            await self._note_blocked(held, task, lack.missing)
            raise Blocked(lack.missing)

    async def _note_blocked(
        self, held: HeldLog, task: TaskState, missing: tuple[Missing, ...]
    ) -> None:
        """Append what is missing to the task and to the tasks queued behind it."""
        for blocked_task in (task, *held.state.queue.values()):
            if blocked_task.blocked_on != missing:
                held.add(TaskBlocked(blocked_on=missing), blocked_task.task_id)
        await held.commit()

    async def _work_or_block(self, held: HeldLog, task: TaskState) -> None:
        """Run the body of one task; if it raises Blocked, record that and release the log."""
        try:
            await self._work(held, task)
        except Blocked as blocked:
            if task.cancel_requested:
                return
            await self._note_blocked(held, task, blocked.blocked_on)
            # `_check` registers the missing parts, so that the sweep skips the log. If they have
            # appeared since, it returns, and the next sweep resumes the task.
            await self._check(held, task)
            raise

    async def _work(self, held: HeldLog, task: TaskState) -> None:
        """Run the body of one task. Its errors end here: the task fails, the log continues."""
        _resume(held, task)
        self._end_queued(held)
        stop = TaskStop(task.task_id, asyncio.current_task())
        try:
            if not (task.cancel_requested or (held.recovers and self._gives_up(held, task))):
                self._stops[held.state.log_id] = stop
                await self._body.work(held, task)
        except Cancel:
            log.debug("task %s was cancelled between two awaits", task.task_id)
        except asyncio.CancelledError:
            if stop.is_wanted:
                raise
            if not stop.was_used:
                # A library cancelled our task. Treat it as a fault, not as a stop of the process.
                log.exception("task %s was cancelled without a request", task.task_id)
                await self._fail(held, task)
        except StoreError:
            raise
        except Exception as error:
            # Too few files or threads is not a fault of the task: it stays pending and is retried.
            raise_exhaustion(error)
            log.exception("task %s failed", task.task_id)
            await self._fail(held, task)
        finally:
            self._stops.pop(held.state.log_id, None)
            held.begins = held.recovers = False
        # Before anything is awaited below, or the cancellation would hit the closing writes.
        if stop.was_used:
            await stop.absorb(self._clock)
        if task.cancel_requested and not task.is_ended:
            await held.in_order()
            self._end(held, task, cancelled(task))
        await held.commit()
        await self._notify(held, task)

    def _cancel(self, held: HeldLog, task_id: TaskId) -> None:
        """Stop the task if it runs. When none runs, `_until_done` ends those that are cancelled."""
        if (stop := self._stops.get(held.state.log_id)) is not None:
            stop(task_id)
            self._end_queued(held)

    def _end_queued(self, held: HeldLog) -> None:
        """End cancelled tasks in the queue. A plain turn has none, and enters no other file."""
        if held.state.queue:
            self._queue_ends.end(held)

    async def _notify(self, held: HeldLog, task: TaskState) -> None:
        """Report an end, questions, or a wait for tasks; and tasks that ended in the queue."""
        has_news = task.is_ended or task.waits.questions or task.waits.joins
        if has_news and not any(each is task for each in held.state.aside):
            await self._body.notify(held, task)
        if held.state.aside:
            await self._queue_ends.notify(held)

    async def _fail(self, held: HeldLog, task: TaskState) -> None:
        """End the task with an internal error."""
        await held.in_order()
        self._end(held, task, failed(task, internal_error(FAULT)))

    def _gives_up(self, held: HeldLog, task: TaskState) -> bool:
        """End a task whose process died too often at the same place. Return whether it ended."""
        lease = held.lease
        if lease.alone < self._limits.recoveries:
            return False
        self._end(held, task, failed(task, crashed(task, lease)))
        return True

    def _end(self, held: HeldLog, task: TaskState, ended: TaskEnded) -> None:
        """End the task early. If its body cannot close it, end it anyway, or it would never end."""
        try:
            self._body.end(held, task, ended)
        except Exception:
            log.exception("task %s could not be closed; it ends without that", task.task_id)
            if not task.is_ended:
                withdraw(held, task)
                held.add(ended, task.task_id)


def _resume(held: HeldLog, task: TaskState) -> None:
    """Add TaskResumed, unless this activation is the first for the task."""
    if task.started is not None and not held.begins:
        held.add(TaskResumed(crashed=held.recovers), task.task_id)
