"""How tasks end: waits for it, whoever is at work on them."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Self

from penstock.chat.message import Reply
from penstock.core.errors import NotFound
from penstock.core.events import (
    CancelRequested,
    Event,
    QuestionAnswered,
    TaskEnded,
    TaskSuspended,
)
from penstock.core.flow_events import RunEnded
from penstock.core.ids import LogId, SessionId, TaskId
from penstock.core.task import TaskStatus
from penstock.core.world import World
from penstock.engine.bus import Bus
from penstock.store.log import Log
from penstock.store.projections import Projections

_TURNING_POINTS = (TaskEnded, TaskSuspended, QuestionAnswered, CancelRequested)
"""Events after which a task stands otherwise than before."""


class TaskWaiter:
    """Tells how tasks stand when nothing more happens in them by itself."""

    def __init__(self, log: Log, projections: Projections, bus: Bus, world: World) -> None:
        self._log = log
        self._projections = projections
        self._bus = bus
        self._clock = world.clock
        self._limits = world.limits

    def expected(self, task_id: TaskId) -> "PendingEnd":
        """Begin to listen for the end of a task that does not exist yet."""
        return PendingEnd(self, self._bus, task_id)

    async def reply(self, task_id: TaskId) -> Reply:
        """Wait until the task has ended or waits for a person."""
        reply = await self.wait(task_id, None)
        if reply is None:
            raise NotFound(f"task {task_id} is gone: its conversation was deleted")
        return reply

    async def wait(self, task_id: TaskId, seconds: float | None) -> Reply | None:
        """Wait until the task has ended or waits for a person; None when the time was up first."""
        end = self._bus.end_of(task_id)
        try:
            if (reply := await self._settled(task_id)) is not None:
                return reply
            return await self.until(end, task_id, seconds)
        finally:
            self._bus.forget_end(task_id, end)

    async def until(
        self, end: "asyncio.Future[Any]", task_id: TaskId, seconds: float | None
    ) -> Reply | None:
        """Wait for the end, and look now and then: another process may be at work on the task."""
        now, alarms = self._clock.monotonic, self._bus.alarms
        until = now() + (math.inf if seconds is None else seconds)
        pause = self._limits.poll_seconds
        while True:
            others = alarms.set(end, max(min(pause, until - now()), 0))
            try:
                record = await end
            finally:
                others.discard(end)
                self._bus.forget_end(task_id, end)
            if record and (reply := await self._reply(record.log_id, task_id, record.event)):
                return reply
            end = self._bus.end_of(task_id)
            try:
                reply = await self._settled(task_id)
            except NotFound:
                self._bus.forget_end(task_id, end)
                raise
            if reply is not None or now() >= until:
                self._bus.forget_end(task_id, end)
                return reply
            pause = min(2 * pause, self._limits.sweep_seconds)

    async def _settled(self, task_id: TaskId) -> Reply | None:
        """Return how a task stands; None while it works, or is about to go on with an answer."""
        task = await self._projections.find_task(task_id)
        if task is None:
            raise NotFound(f"there is no task {task_id!r}")
        if not (task.status.is_final or task.status is TaskStatus.SUSPENDED):
            return None
        records = await self._log.read(task.log_id, after=task.first_seq - 1)
        own = [each.event for each in records if each.task_id == task_id]
        last = next(each for each in reversed(own) if isinstance(each, _TURNING_POINTS))
        return await self._reply(task.log_id, task_id, last)

    async def _reply(self, log_id: LogId, task_id: TaskId, event: Any) -> Reply | None:
        """Return how a task stands after an event; None when there is something to do in it."""
        if isinstance(event, TaskEnded):
            return Reply(
                session_id=SessionId(log_id),
                task_id=task_id,
                status=event.status,
                content=event.content,
                message_id=event.message_id,
                finish_reason=event.finish_reason,
                iterations=event.iterations,
                usage=event.usage,
                error=event.error,
                envelope=event.envelope,
            )
        if not isinstance(event, TaskSuspended):
            return None
        asked = list(await self._projections.open_questions(log_id, task_id))
        if not {each.question.question_id for each in asked}.issuperset(event.questions):
            return None
        if event.runs:
            inside = [each for run in event.runs if (each := await self._run(run))]
            if any(each.status is not TaskStatus.SUSPENDED for each in inside):
                return None  # what waits for it is about to go on
            asked += [question for each in inside for question in each.questions]
            if len(inside) < len(event.runs) and not asked:
                return None
        return Reply(
            session_id=SessionId(log_id),
            task_id=task_id,
            status=TaskStatus.SUSPENDED,
            questions=tuple(asked),
            runs=event.runs,
        )

    async def _run(self, run_id: TaskId) -> Reply | None:
        """Return how a run stands; None while it works. One that was erased waits for nobody."""
        try:
            return await self._settled(run_id)
        except NotFound:
            suspended = TaskStatus.SUSPENDED
            return Reply(session_id=SessionId(run_id), task_id=run_id, status=suspended)


def awaited_runs(events: Sequence[Event]) -> tuple[TaskId, ...]:
    """Return the runs of flows that a task waits for after these events of its own."""
    points = [each for each in events if isinstance(each, _TURNING_POINTS)]
    if not (points and isinstance(points[-1], TaskSuspended)):
        return ()
    over = {each.run_id for each in events if isinstance(each, RunEnded)}
    return tuple(each for each in points[-1].runs if each not in over)


class PendingEnd:
    """The end of a task that is about to be asked for."""

    __slots__ = ("_bus", "_end", "_endings", "_task_id")

    def __init__(self, endings: TaskWaiter, bus: Bus, task_id: TaskId) -> None:
        self._endings = endings
        self._bus = bus
        self._task_id = task_id
        self._end = bus.end_of(task_id)

    def __enter__(self) -> Self:
        """Listen."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop to listen."""
        self._bus.forget_end(self._task_id, self._end)

    async def reply(self) -> Reply:
        """Wait until the task has ended or waits for a person."""
        reply = await self._endings.until(self._end, self._task_id, None)
        if reply is None:
            raise NotFound(f"task {self._task_id} is gone: its conversation was deleted")
        return reply
