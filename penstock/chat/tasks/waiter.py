"""How tasks end: waits for it, whoever is at work on them."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

from penstock.chat.message import Reply
from penstock.chat.tasks.records import records_of, unfit
from penstock.core.errors import NotFound
from penstock.core.events.events import (
    CancelRequested,
    Event,
    QuestionAnswered,
    TaskBlocked,
    TaskEnded,
    TaskSuspended,
)
from penstock.core.events.flow_events import RunEnded
from penstock.core.ids import LogId, SessionId, TaskId
from penstock.core.limits import World
from penstock.core.task import TaskStatus
from penstock.engine.bus import Bus
from penstock.store.logs.log import Log
from penstock.store.projections.projections import Projections

_TURNING_POINTS = (TaskEnded, TaskSuspended, TaskBlocked, QuestionAnswered, CancelRequested)
"""Events after which a task stands otherwise than before."""
_RESTS = (TaskStatus.SUSPENDED, TaskStatus.BLOCKED)
IsBlocked = Callable[[LogId], bool]
"""Whether a log was left to others because something that it needs is missing here."""


class TaskWaiter:
    """Tells how tasks stand when nothing more happens in them by itself."""

    def __init__(
        self, log: Log, projections: Projections, bus: Bus, world: World, *, is_blocked: IsBlocked
    ) -> None:
        self._is_blocked = is_blocked
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
        with EndSignal(self._bus, task_id) as signal:
            if (reply := await self._settled(task_id, signal)) is not None:
                return reply
            return await self.until(signal, seconds)

    async def until(self, signal: "EndSignal", seconds: float | None) -> Reply | None:
        """Wait for the end, and look now and then: another process may be at work on the task."""
        now, timer = self._clock.monotonic, self._bus.timer
        until = now() + (math.inf if seconds is None else seconds)
        pause, task_id = self._limits.poll_seconds, signal.task_id
        while True:
            end = signal.end
            others = timer.set(end, max(min(pause, until - now()), 0))
            try:
                record = await end
            finally:
                others.discard(end)
            if record is not None and record.task_id == task_id:
                reply = await self._reply(record.log_id, task_id, record.event, signal)
                if reply is not None:
                    return reply
            signal.renew()
            reply = await self._settled(task_id, signal)
            if reply is not None or now() >= until:
                return reply
            pause = min(2 * pause, self._limits.sweep_seconds)

    async def _settled(self, task_id: TaskId, signal: "EndSignal") -> Reply | None:
        """Return how a task stands; None while it works, or is about to go on with an answer."""
        task = await self._projections.find_task(task_id)
        if task is None:
            raise NotFound(f"there is no task {task_id!r}")
        if not (task.status.is_final or task.status in _RESTS):
            return None
        own = [each.event for each in await records_of(self._log, task)]
        points = [each for each in own if isinstance(each, _TURNING_POINTS)]
        if not own:
            return None  # it was deleted just now
        if not points or (task.status.is_final and not isinstance(points[-1], TaskEnded)):
            raise unfit(task)
        return await self._reply(task.log_id, task_id, points[-1], signal)

    async def _reply(
        self, log_id: LogId, task_id: TaskId, event: Any, signal: "EndSignal"
    ) -> Reply | None:
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
        if isinstance(event, TaskBlocked):
            return self._blocked(log_id, task_id, event)
        if not isinstance(event, TaskSuspended):
            return None
        return await self._suspended(log_id, task_id, event, signal)

    def _blocked(self, log_id: LogId, task_id: TaskId, event: TaskBlocked) -> Reply | None:
        """Return what is missing for a task; None when it is missing elsewhere, and not here."""
        if not self._is_blocked(log_id):
            return None
        return Reply(
            session_id=SessionId(log_id),
            task_id=task_id,
            status=TaskStatus.BLOCKED,
            blocked_on=event.blocked_on,
        )

    async def _suspended(
        self, log_id: LogId, task_id: TaskId, event: TaskSuspended, signal: "EndSignal"
    ) -> Reply | None:
        asked = list(await self._projections.open_questions(log_id, task_id))
        if not {each.question.question_id for each in asked}.issuperset(event.questions):
            return None
        if event.runs:
            inside = [each for run in event.runs if (each := await self._run(run, signal))]
            if any(each.status.is_final for each in inside):
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

    async def _run(self, run_id: TaskId, signal: "EndSignal") -> Reply | None:
        """Return how a run stands; None while it works. One that was erased waits for nobody."""
        signal.hear(run_id)
        try:
            return await self._settled(run_id, signal)
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


class EndSignal:
    """Tells that a task has ended or waits, or a run that it waits for, if this process did it."""

    __slots__ = ("_bus", "_heard", "end", "task_id")

    def __init__(self, bus: Bus, task_id: TaskId) -> None:
        self._bus = bus
        self.task_id = task_id
        self.end: asyncio.Future[Any] = bus.end_of(task_id)
        self._heard = {task_id}

    def __enter__(self) -> Self:
        """Listen."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop to listen."""
        for each in self._heard:
            self._bus.forget_end(each, self.end)

    def hear(self, run_id: TaskId) -> None:
        """Listen to a run, too: what it asks is asked of who waits for the task."""
        if run_id not in self._heard:
            self._heard.add(run_id)
            self._bus.watch_end(run_id, self.end)

    def renew(self) -> None:
        """Listen to the task anew, once it was told something."""
        self.__exit__()
        self.end, self._heard = self._bus.end_of(self.task_id), {self.task_id}


class PendingEnd:
    """The end of a task that is about to be asked for."""

    __slots__ = ("_signal", "_waiter")

    def __init__(self, waiter: TaskWaiter, bus: Bus, task_id: TaskId) -> None:
        self._waiter = waiter
        self._signal = EndSignal(bus, task_id)

    def __enter__(self) -> Self:
        """Listen."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop to listen."""
        self._signal.__exit__()

    async def reply(self) -> Reply:
        """Wait until the task has ended or waits for a person."""
        reply = await self._waiter.until(self._signal, None)
        if reply is None:
            task_id = self._signal.task_id
            raise NotFound(f"task {task_id} is gone: its conversation was deleted")
        return reply
