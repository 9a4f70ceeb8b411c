"""One stretch of work on a log: take the lease, fold, do what there is to do, give it back."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.core.clock import Moment
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import LeaseLost, StoreError
from penstock.core.events import QuestionAnswered, TaskEnded, TaskResumed
from penstock.core.ids import LogId, TaskId
from penstock.core.messages import Usage
from penstock.core.question import QuestionStatus
from penstock.core.task import TaskStatus
from penstock.core.world import World
from penstock.engine.held import HeldLog
from penstock.engine.state import SessionState, TaskState, fold
from penstock.store.log import Lease, Log

log = logging.getLogger(__name__)

EXPIRED = {"expired": True}
"""The answer of nobody, when a question's time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What an activation does with the task whose turn it is."""

    work: Callable[[HeldLog, TaskState], Awaitable[None]]
    """Go on with the task until it has ended or waits; adds TaskEnded or TaskSuspended."""
    cancel: Callable[[HeldLog, TaskState], Awaitable[None]]
    """Close what is open and add TaskEnded, `cancelled`."""


class Activations:
    """The logs that this process works on."""

    def __init__(self, log: Log, body: Body, world: World, *, owner: str) -> None:
        self._log = log
        self._body = body
        self._clock = world.clock
        self._owner = owner
        self._limits = world.limits
        self._held: dict[LogId, HeldLog] = {}
        self._folded: OrderedDict[LogId, SessionState] = OrderedDict()

    async def run(self, log_id: LogId) -> Moment | None:
        """Do all there is to do in a log; returns when to look again, if at some time."""
        lease = await self._log.acquire(log_id, self._owner)
        if lease is None:
            return None
        held = HeldLog(self._log, lease, await self._fold(lease), self._clock)
        self._held[log_id] = held
        keeper = Keeper(held, self._limits.renew_seconds)
        try:
            return await self._until_done(held)
        except LeaseLost:
            log.warning("lost the lease of log %s to another process", log_id)
            return None
        except asyncio.CancelledError:
            await held.surrender()
            raise
        finally:
            keeper.stop()
            del self._held[log_id]

    def is_held(self, log_id: LogId) -> bool:
        """Whether this process is at work on the log."""
        return log_id in self._held

    async def look(self, log_id: LogId) -> None:
        """Make a log at work here take in what came from outside."""
        if held := self._held.get(log_id):
            try:
                await held.refresh()
            except LeaseLost:
                log.debug("log %s was lost before it could be looked at", log_id)

    def forget(self, log_id: LogId) -> None:
        """Drop what is folded of a log, because something in it was erased."""
        self._folded.pop(log_id, None)

    async def _fold(self, lease: Lease) -> SessionState:
        state = self._folded.pop(lease.log_id, None)
        if state is None:
            return fold(lease.log_id, await self._log.read(lease.log_id))
        if state.seq < lease.head:
            for record in await self._log.read(lease.log_id, after=state.seq):
                state.apply(record.event, record.task_id, record.path, record.at)
                state.seq = record.seq
        return state

    async def _until_done(self, held: HeldLog) -> Moment | None:
        state = held.state
        while True:
            self._expire(held)
            while (task := state.next_task()) is not None:
                await self._work(held, task)
                self._expire(held)
            wake_at = next_expiry(state)
            if await held.release(wake_at=wake_at):
                break
        self._keep(state)
        return wake_at

    async def _work(self, held: HeldLog, task: TaskState) -> None:
        """Run the body of one task; the door where its errors end."""
        if task.started is not None:
            held.add(TaskResumed(crashed=held.recovers), task.task_id)
        here = asyncio.current_task()

        def stop(task_id: TaskId) -> None:
            if here is not None and task_id == task.task_id:
                here.cancel("the task was cancelled")

        try:
            if not task.cancel_requested and not self._gave_up(held, task):
                held.when_cancelled(stop)
                await self._body.work(held, task)
        except asyncio.CancelledError:
            if not task.cancel_requested or here is None:
                raise
            here.uncancel()
        except StoreError:
            raise
        except Exception:
            log.exception("task %s failed", task.task_id)
            held.add(failed(task, "INTERNAL_ERROR", "something went wrong here"), task.task_id)
        finally:
            held.when_cancelled(_nothing)
            held.recovers = False
        if task.cancel_requested and not task.is_ended:
            await self._body.cancel(held, task)
        await held.commit()

    def _gave_up(self, held: HeldLog, task: TaskState) -> bool:
        if held.lease.recoveries < self._limits.recoveries:
            return False
        message = f"the process died {held.lease.recoveries} times in a row at the same place"
        held.add(failed(task, "INTERNAL_ERROR", message), task.task_id)
        return True

    def _expire(self, held: HeldLog) -> None:
        current = held.state.current
        if current is None or current.is_ended:
            return
        now = self._clock.now()
        for question in list(current.waiting.values()):
            if question.expires_at is not None and question.expires_at <= now:
                event = QuestionAnswered(
                    question_id=question.question_id,
                    status=QuestionStatus.CANCELLED,
                    answer=EXPIRED,
                )
                held.add(event, current.task_id)

    def _keep(self, state: SessionState) -> None:
        self._folded[state.log_id] = state
        if len(self._folded) > self._limits.fold_cache:
            self._folded.popitem(last=False)


class Keeper:
    """Renews a lease for as long as it is held."""

    __slots__ = ("_held", "_loop", "_seconds", "_task", "_timer")

    def __init__(self, held: HeldLog, seconds: float) -> None:
        self._held = held
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(seconds, self._due)

    def stop(self) -> None:
        """Renew no more."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _due(self) -> None:
        self._task = self._loop.create_task(self._renew())

    async def _renew(self) -> None:
        try:
            await self._held.refresh()
        except LeaseLost:
            log.warning("could not renew the lease of log %s", self._held.lease.log_id)
            return
        self._timer = self._loop.call_later(self._seconds, self._due)


def failed(task: TaskState, code: str, message: str) -> TaskEnded:
    """Return the event that ends a task that did not succeed."""
    return TaskEnded(
        status=TaskStatus.FAILED,
        iterations=task.iteration,
        usage=usage_of(task),
        error=ErrorDetail(code=code, message=message, continuable=False),
    )


def usage_of(task: TaskState) -> Usage:
    """Return what the task has spent."""
    return Usage(
        input_tokens=task.input_tokens,
        output_tokens=task.output_tokens,
        model_calls=task.model_calls,
        tool_calls=task.tool_calls,
        cost_usd=task.cost_usd if task.model_calls else None,
    )


def next_expiry(state: SessionState) -> Moment | None:
    """Return when the first open question of the log runs out, if one does."""
    if state.current is None or state.current.is_ended:
        return None
    times = [question.expires_at for question in state.current.waiting.values()]
    return min((time for time in times if time is not None), default=None)


def _nothing(task_id: TaskId) -> None:
    """Nobody is at work on the task."""
