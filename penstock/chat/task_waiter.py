"""Waits until a task has ended or waits for a person, in this process or another.

How: an EndSignal resolves when this process commits an event that ends or suspends the task.
Another process may hold the log, so the waiter also polls the store: first after
`limits.poll_seconds`, then with doubling pauses up to `limits.sweep_seconds`. The signal is set
before the store is read; otherwise an end between the two would be missed until the next poll.

A task that waits for runs counts as waiting only if each run has ended or waits too, and a question
is open. Questions of its runs are reported as its own. The lists hold the status of a task, and its
log the questions and runs; if they disagree, StoreCorrupt names the repair.

Shown by tests/chat/test_task_waiter.py.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from penstock.chat.recorded.open_questions import asked_in_tree
from penstock.chat.recorded.task_records import records_of, unfit
from penstock.chat.requests import TaskReply
from penstock.core.errors import NotFound, NotReady
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.events import (
    CancelRequested,
    Event,
    QuestionAnswered,
    Record,
    TaskBlocked,
    TaskEnded,
    TaskSuspended,
)
from penstock.core.events.flow_events import RunEnded
from penstock.core.ids import LogId, SessionId, TaskId
from penstock.core.limits import World
from penstock.core.task import QuestionRecord, TaskStatus
from penstock.engine.bus import Bus
from penstock.store.logs.log import Log
from penstock.store.projections import Projections

_TURNING_POINTS = (TaskEnded, TaskSuspended, TaskBlocked, QuestionAnswered, CancelRequested)
"""Events that change the status of a task."""
STOPPED = "the runtime was closed while the task runs: open the project again and attach to it"
_WAITING = (TaskStatus.SUSPENDED, TaskStatus.BLOCKED)
IsBlocked = Callable[[LogId], bool]
"""Return whether the log's task needs something that this process lacks."""


class TaskWaiter:
    """Returns the reply of a task once it has ended or waits."""

    def __init__(
        self, log: Log, projections: Projections, bus: Bus, world: World, *, is_blocked: IsBlocked
    ) -> None:
        self._is_blocked = is_blocked
        self._log = log
        self._projections = projections
        self._bus = bus
        self._clock = world.clock
        self._limits = world.limits

    async def reply_to(
        self, task_id: TaskId, request: Awaitable[TaskId], into: list[Record] | None = None
    ) -> TaskReply:
        """Make a request whose task gets this id; wait until the task has ended or waits.

        It listens before the request is made: a fast task could end between the two. A repeated
        request returns another id, that of the first one's task. The events that this process
        commits to the task meanwhile are added to `into`.
        """
        with EndSignal(self._bus, task_id, into) as signal:
            accepted = await request
            reply = await self.until(signal, None) if accepted == task_id else None
        if accepted != task_id:
            reply = await self.wait(accepted)
        if reply is None:
            raise NotFound(f"task {accepted} is gone: its conversation was deleted")
        return reply

    async def wait(self, task_id: TaskId, seconds: float | None = None) -> TaskReply | None:
        """Wait until the task has ended or waits for a person; return None on timeout.

        Raises NotReady if the runtime is closed meanwhile.
        """
        with EndSignal(self._bus, task_id) as signal:
            if (reply := await self._settled(task_id, signal)) is not None:
                return reply
            return await self.until(signal, seconds)

    async def until(self, signal: "EndSignal", seconds: float | None) -> TaskReply | None:
        """Wait for the signal, and poll: another process may run the task."""
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
            if self._bus.is_closed:
                raise NotReady(STOPPED)
            pause = min(2 * pause, self._limits.sweep_seconds)

    async def _settled(self, task_id: TaskId, signal: "EndSignal") -> TaskReply | None:
        """Return the reply of a task; None while it runs or is about to resume."""
        task = await self._projections.find_task(task_id)
        if task is None:
            raise NotFound(f"there is no task {task_id!r}")
        if not (task.status.is_final or task.status in _WAITING):
            return None
        events = [record.event for record in await records_of(self._log, task)]
        points = [event for event in events if isinstance(event, _TURNING_POINTS)]
        if not events:
            return None  # the log was deleted since the list was read
        if not points and isinstance(events[0], ChildRequested):
            return None  # it has not started: the tasks that it depends on work
        if not points or (task.status.is_final and not isinstance(points[-1], TaskEnded)):
            raise unfit(task)
        return await self._reply(task.log_id, task_id, points[-1], signal)

    async def _reply(
        self, log_id: LogId, task_id: TaskId, event: Any, signal: "EndSignal"
    ) -> TaskReply | None:
        """Return the reply of a task after an event; None if the task has work to do."""
        if isinstance(event, TaskEnded):
            return TaskReply(
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
                output=event.output,
            )
        if isinstance(event, TaskBlocked):
            return self._blocked(log_id, task_id, event)
        if not isinstance(event, TaskSuspended):
            return None
        return await self._suspended(log_id, task_id, event, signal)

    def _blocked(self, log_id: LogId, task_id: TaskId, event: TaskBlocked) -> TaskReply | None:
        """Return the reply of a blocked task; None if this process has what is missing."""
        if not self._is_blocked(log_id):
            return None
        return TaskReply(
            session_id=SessionId(log_id),
            task_id=task_id,
            status=TaskStatus.BLOCKED,
            blocked_on=event.blocked_on,
        )

    async def _suspended(
        self, log_id: LogId, task_id: TaskId, event: TaskSuspended, signal: "EndSignal"
    ) -> TaskReply | None:
        questions = list(await self._projections.open_questions(log_id, task_id))
        if not {each.question.question_id for each in questions}.issuperset(event.questions):
            return None
        if event.joins and not questions:
            questions = await self._asked_in_tree(task_id)
            if not (questions or event.runs):
                return None  # other tasks work for it, or the last one has just ended
        if event.runs:
            inside = [reply for run in event.runs if (reply := await self._run(run, signal))]
            if any(each.status.is_final for each in inside):
                return None  # the run has ended, so the task is about to resume
            questions += [question for each in inside for question in each.questions]
            if len(inside) < len(event.runs) and not questions:
                return None
        return TaskReply(
            session_id=SessionId(log_id),
            task_id=task_id,
            status=TaskStatus.SUSPENDED,
            questions=tuple(questions),
            runs=event.runs,
        )

    async def _asked_in_tree(self, task_id: TaskId) -> list[QuestionRecord]:
        """Return the open questions of the task's tree; none while something in it can continue."""
        task = await self._projections.find_task(task_id)
        root = task_id if task is None else task.root_id or task_id
        return await asked_in_tree(self._projections, root)

    async def _run(self, run_id: TaskId, signal: "EndSignal") -> TaskReply | None:
        """Return the reply of a run; None while it runs. An erased run has no questions."""
        signal.watch(run_id)
        try:
            return await self._settled(run_id, signal)
        except NotFound:
            suspended = TaskStatus.SUSPENDED
            return TaskReply(session_id=SessionId(run_id), task_id=run_id, status=suspended)


def awaited_runs(events: Sequence[Event]) -> tuple[TaskId, ...]:
    """Return the flow runs that a task waits for after these events of the task."""
    points = [event for event in events if isinstance(event, _TURNING_POINTS)]
    if not (points and isinstance(points[-1], TaskSuspended)):
        return ()
    ended = {event.run_id for event in events if isinstance(event, RunEnded)}
    return tuple(run_id for run_id in points[-1].runs if run_id not in ended)


class EndSignal:
    """Resolves when this process ends or suspends a task, or a run that the task waits for."""

    __slots__ = ("_bus", "_into", "_watched", "end", "task_id")

    def __init__(self, bus: Bus, task_id: TaskId, into: list[Record] | None = None) -> None:
        self._bus = bus
        self._into = into
        self.task_id = task_id

    def __enter__(self) -> Self:
        """Listen."""
        self.end: asyncio.Future[Any] = self._bus.end_of(self.task_id, self._into)
        self._watched = {self.task_id}
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        for task_id in self._watched:
            self._bus.forget_end(task_id, self.end)

    def watch(self, run_id: TaskId) -> None:
        """Listen to a run, too: its questions are reported as those of the task."""
        if run_id not in self._watched:
            self._watched.add(run_id)
            self._bus.watch_end(run_id, self.end)

    def renew(self) -> None:
        """Listen again, with a new future, after the signal was resolved."""
        self.__exit__()
        self.__enter__()
