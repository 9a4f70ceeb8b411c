"""One stretch of work on a log: take the lease, fold, do what there is to do, give it back."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from functools import partial

from penstock.core.clock import Moment
from penstock.core.errors import StoreError
from penstock.core.events.events import (
    Entry,
    QuestionAnswered,
    Record,
    TaskBlocked,
    TaskEnded,
    TaskResumed,
)
from penstock.core.exhaustion import exhaustion_of, raise_exhaustion
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import World
from penstock.core.question import EXPIRED, QuestionStatus
from penstock.core.signals import Blocked, Cancel, LeaseLost
from penstock.core.task import Missing, names_of
from penstock.engine.held_log import HeldLog
from penstock.engine.lease_keeper import LeaseKeeper
from penstock.engine.state import SessionState
from penstock.engine.state_cache import StateCache
from penstock.engine.suspend import withdraw
from penstock.engine.task_body import MissingParts, TaskBody
from penstock.engine.task_ends import cancelled, crashed, failed, internal_error
from penstock.engine.task_state import TaskState
from penstock.engine.task_stop import TaskStop
from penstock.store.logs.log import Lease, Log
from penstock.store.logs.quarantine import SUSPECT

log = logging.getLogger(__name__)


class Activations:
    """The logs that this process works on."""

    def __init__(self, log: Log, body: TaskBody, world: World, *, owner: str) -> None:
        self._log = log
        self._body = body
        self._world = world
        self._clock = world.clock
        self._owner = owner
        self._limits = world.limits
        self._held: dict[LogId, HeldLog] = {}
        self._keeper = LeaseKeeper(self._held, world.limits.renew_seconds)
        self._states = StateCache(log, self._held, most=world.limits.fold_cache)
        self._begun: dict[LogId, tuple[Lease, float]] = {}
        """Leases that were taken when a task began, and when; `run` comes for them."""
        self._owed: dict[LogId, Lease] = {}
        """Leases that the store did not take back; it is asked again before the log is taken."""
        self._blocked: dict[LogId, MissingParts] = {}
        """Logs that were left because something was missing here."""
        self._is_closing = False

    async def run(self, log_id: LogId) -> Moment | None:
        """Do all there is to do in a log; returns when to look again, if at some time."""
        now = self._clock.monotonic()
        if log_id in self._begun:
            lease, now = self._begun.pop(log_id)
        elif (found := await self._acquired(log_id)) is None:
            return None
        else:
            lease = found
        try:
            return await self._hold(lease, now)
        except LeaseLost as lost:
            await self._tell_lost(log_id, lost)
        except Blocked as blocked:
            await self._leave_blocked(lease, blocked)
        except asyncio.CancelledError:
            if self._is_closing:
                await self._give_back(lease)
            raise  # else by nobody who may: the lease runs out, and that counts as a crash
        except StoreError:
            await self._give_back(lease)
            raise
        except Exception as error:
            if (lack := exhaustion_of(error)) is not None:
                await self._give_back(lease)
                raise lack from error
            log.exception("the work on log %s broke off", log_id)
        return None

    async def begin(
        self, log_id: LogId, entries: Sequence[Entry], *, head: int
    ) -> Sequence[Record] | None:
        """Write what begins a task at once, for `run` to go on with; None when it has to wait."""
        if self._is_closing:
            return None
        now = self._clock.monotonic()
        begun = await self._log.begin(log_id, entries, self._owner, head=head)
        if begun is None:
            return None
        lease, records = begun
        self._begun[log_id] = (lease, now)
        if self._is_closing:
            await self.close()
        return records

    async def close(self) -> None:
        """Begin nothing more, and give back the leases that nobody came for."""
        self._is_closing = True
        waiting = [*(lease for lease, _ in self._begun.values()), *self._owed.values()]
        self._begun.clear()
        for lease in waiting:
            await self._give_back(lease)

    async def rest(self) -> None:
        """Return when nothing is asked of the store any more for logs that were at work here."""
        await self._keeper.rest()

    async def look_up(self, log_id: LogId) -> None:
        """Fold a log that is not at hand; who hands something in learns whether it reads back.

        Raises StoreCorrupt when it does not.
        """
        if log_id not in self._begun:
            await self._states.look_up(log_id)

    async def drop_erased(self) -> None:
        """Drop what is folded here of logs in which another process erased something."""
        await self._states.drop_erased()

    def find(self, log_id: LogId) -> SessionState | None:
        """Return the state of a log that is folded here and not at work."""
        return self._states.find(log_id)

    def awaited(self, log_id: LogId) -> set[LogId]:
        """Return the runs that a log at rest waits for, as far as it is folded here."""
        state = self._states.find(log_id)
        current = None if state is None else state.current
        return set() if current is None else {LogId(run_id) for run_id in current.awaited}

    def hear(self, records: Sequence[Record]) -> None:
        """Take in what this process committed."""
        self._states.hear(records)

    def is_blocked(self, log_id: LogId) -> bool:
        """Whether a log was left because something was missing here, and still is."""
        lack = self._blocked.get(log_id)
        if lack is not None and self._body.has(log_id, lack):
            del self._blocked[log_id]
        return log_id in self._blocked

    @property
    def blocked(self) -> int:
        """How many logs were left because something was missing here."""
        return len(self._blocked)

    def forget_blocked(self, pending: Collection[LogId]) -> None:
        """Forget what was missing for logs that are not pending any more."""
        for log_id in self._blocked.keys() - set(pending):
            del self._blocked[log_id]

    def is_held(self, log_id: LogId) -> bool:
        """Whether this process is at work on the log."""
        return log_id in self._held

    async def look(self, log_id: LogId) -> None:
        """Make a log at work here take in what came from outside."""
        if held := self._held.get(log_id):
            try:
                await held.keep()
            except StoreError as error:
                log.debug("log %s could not be looked at: %s", log_id, error)

    def forget(self, log_id: LogId) -> None:
        """Drop what is known here of a log, because something in it was erased."""
        self._states.forget(log_id)
        self._blocked.pop(log_id, None)

    async def _acquired(self, log_id: LogId) -> Lease | None:
        """Take a lease. One that was still to be given back is, or this would count as a crash."""
        if owed := self._owed.get(log_id):
            await self._log.surrender(owed)
            self._owed.pop(log_id, None)
        return await self._log.acquire(log_id, self._owner)

    async def _give_back(self, lease: Lease) -> None:
        try:
            await self._log.surrender(lease)
        except StoreError as error:
            log.debug("log %s could not be given back yet: %s", lease.log_id, error)
            self._owed[lease.log_id] = lease
        else:
            self._owed.pop(lease.log_id, None)

    async def _leave_blocked(self, lease: Lease, blocked: Blocked) -> None:
        """Leave a log to a process that has what its task needs."""
        said = "log %s is left to a process that has what is missing here: %s"
        log.warning(said, lease.log_id, names_of(blocked.blocked_on))
        await self._give_back(lease)

    async def _tell_lost(self, log_id: LogId, lost: LeaseLost) -> None:
        """Say why work stops; that its log was erased is what somebody wanted."""
        if await self._log.head(log_id):
            log.warning("the work on log %s stops: %s", log_id, lost)
        else:
            log.info("the work on log %s stops: it was erased", log_id)

    async def _hold(self, lease: Lease, since: float) -> Moment | None:
        state = await self._states.take(lease)
        if lease.recoveries >= SUSPECT:
            said = "log %s resumes on probation: the process died %d times in a row at its place"
            log.warning(said, lease.log_id, lease.recoveries)
        held = HeldLog(self._log, lease, state, self._world, since=since)
        self._held[lease.log_id] = held
        self._keeper.look_after()
        here = asyncio.current_task()
        assert here is not None  # noqa: S101  an activation runs in a task
        held.when_lost(partial(here.cancel, "the log was lost"))
        try:
            return await self._until_done(held)
        except asyncio.CancelledError:
            if held.lost is None or here.cancelling() > 1:
                raise
            raise held.lost from None
        finally:
            held.leave()
            del self._held[lease.log_id]
            if held.lost is not None:
                here.uncancel()

    async def _until_done(self, held: HeldLog) -> Moment | None:
        state = held.state
        await self._tell(held, state.current)
        while True:
            await self._expire(held)
            while (task := state.next_task()) is not None:
                await self._check(held, task)
                await self._work_or_block(held, task)
                await self._expire(held)
            wake_at = next_expiry(state)
            if await held.release(wake_at=wake_at):
                break
        self._states.keep(state)
        return wake_at

    async def _check(self, held: HeldLog, task: TaskState) -> None:
        """Note what is missing for the task, and raise Blocked if there is something.

        A task that was started with the lease has been checked already.
        """
        if held.begins or task.cancel_requested:
            return
        if (lack := self._body.lacks(held.state, task)) is not None:
            self._blocked[held.state.log_id] = lack
            await self._note_blocked(held, task, lack.missing)
            raise Blocked(lack.missing)

    async def _note_blocked(
        self, held: HeldLog, task: TaskState, missing: tuple[Missing, ...]
    ) -> None:
        """Note what is missing for the task and those queued behind it."""
        for each in (task, *held.state.queue.values()):
            if each.blocked_on != missing:
                held.add(TaskBlocked(blocked_on=missing), each.task_id)
        await held.commit()

    async def _work_or_block(self, held: HeldLog, task: TaskState) -> None:
        """Run the body of one task, which may find out that something is missing here."""
        try:
            await self._work(held, task)
        except Blocked as blocked:
            if task.cancel_requested:
                return
            await self._note_blocked(held, task, blocked.blocked_on)
            await self._check(held, task)  # it finds what was noted, here and in other processes
            raise  # unless that came meanwhile: then the next sweep resumes the task

    async def _work(self, held: HeldLog, task: TaskState) -> None:
        """Run the body of one task; the door where its errors end."""
        _resume(held, task)
        _end_in_line(held)
        stop = TaskStop(task.task_id)
        try:
            if not task.cancel_requested and not self._gave_up(held, task):
                held.when_cancelled(partial(_cancel, held, stop))
                await self._body.work(held, task)
        except Cancel:
            log.debug("task %s was cancelled between two awaits", task.task_id)
        except asyncio.CancelledError:
            if stop.is_wanted:
                raise
            if not stop.was_used:
                log.exception("task %s was cancelled by nobody", task.task_id)
                await self._fail(held, task)
        except StoreError:
            raise
        except Exception as error:
            raise_exhaustion(error)  # it says nothing about the task, which waits for its turn
            log.exception("task %s failed", task.task_id)
            await self._fail(held, task)
        finally:
            held.when_cancelled(_nothing)
            held.begins = held.recovers = False
        if stop.was_used:
            await stop.absorb(self._clock)
        if task.cancel_requested and not task.is_ended:
            await held.in_order()
            self._end(held, task, cancelled(task))
        await held.commit()
        await self._tell(held, task)

    async def _tell(self, held: HeldLog, task: TaskState | None) -> None:
        """Notify the run's waiters if the task has ended."""
        if task is not None and task.is_ended:
            await self._body.tell(held, task)

    async def _fail(self, held: HeldLog, task: TaskState) -> None:
        """End the task by a fault of the runtime."""
        await held.in_order()
        self._end(held, task, failed(task, internal_error("something went wrong here")))

    def _gave_up(self, held: HeldLog, task: TaskState) -> bool:
        lease = held.lease
        if not held.recovers or lease.alone < self._limits.recoveries:
            return False
        self._end(held, task, failed(task, crashed(task, lease)))
        return True

    def _end(self, held: HeldLog, task: TaskState, ended: TaskEnded) -> None:
        """End the task before its time, also where its body cannot: else it would never end."""
        try:
            self._body.end(held, task, ended)
        except Exception:
            log.exception("task %s could not be closed; it ends all the same", task.task_id)
            if not task.is_ended:
                withdraw(held, task)
                held.add(ended, task.task_id)

    async def _expire(self, held: HeldLog) -> None:
        """Answer what nobody answered in time, unless somebody did at the last moment."""
        current = held.state.current
        if current is None or not current.waiting or current.is_ended:
            return
        now = self._clock.now()
        for question in list(current.waiting.values()):
            if question.expires_at is not None and question.expires_at <= now:
                event = QuestionAnswered(
                    question_id=question.question_id,
                    status=QuestionStatus.CANCELLED,
                    answer={**EXPIRED, **question.handed_back},
                )
                held.add(event, current.task_id)
        await held.commit()


def next_expiry(state: SessionState) -> Moment | None:
    """Return when the first open question of the log runs out, if one does."""
    if state.current is None or state.current.is_ended:
        return None
    times = [question.expires_at for question in state.current.waiting.values()]
    return min((time for time in times if time is not None), default=None)


def _resume(held: HeldLog, task: TaskState) -> None:
    """Say that a task goes on, unless this is the first that is done for it."""
    if task.started is not None and not held.begins:
        held.add(TaskResumed(crashed=held.recovers), task.task_id)


def _cancel(held: HeldLog, stop: TaskStop, task_id: TaskId) -> None:
    stop(task_id)
    _end_in_line(held)


def _end_in_line(held: HeldLog) -> None:
    """End the cancelled tasks that wait while another is at work: nothing was begun in them."""
    current = held.state.current
    if current is None or current.is_ended or current.is_suspended:
        return
    in_line = [each for each in held.state.queue.values() if each.cancel_requested]
    for task in in_line:
        held.add(cancelled(task), task.task_id)
    if in_line:
        held.submit()


def _nothing(task_id: TaskId) -> None:
    """Nobody is at work on the task."""
