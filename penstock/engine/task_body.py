"""How an activation runs a task: the port to its work, its cancellation, and how tasks end.

`TaskBody` is what the work provides: run, end, requirements, notification. `TaskStop` cancels the
work on one task without effects on the work that follows. `asyncio.Task.cancel` hits the next await
of the activation, whatever that is. If the body finishes before the CancelledError is delivered,
the error would interrupt the commit of the task's end, or the next task of the log. `absorb`
therefore waits for one pass of the event loop, takes the pending error and lowers the count of
cancel requests. If requests remain, the launcher is stopping the process and the CancelledError is
raised again. Shown by tests/engine/test_task_body.py.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call_errors import Cancelled
from penstock.core.clock import Clock
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import PenstockError
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.events import CallRequested, MessageReceived, TaskEnded
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, MessageId, TaskId
from penstock.core.task import Missing, TaskStatus
from penstock.engine.held_log import HeldLog
from penstock.engine.session_state import SessionState
from penstock.engine.task_state import TaskState
from penstock.store.logs.log import Lease


class Need(Struct, frozen=True):
    """One requirement of a task, by name."""

    missing: Missing
    """The kind of part that is missing if this process lacks it."""
    agent: str | None = None
    """The agent that the model or tool belongs to; None means the project."""
    is_worker: bool = False
    """The agent works for a flow or a tool, so it must have a file."""


class MissingParts(Struct, frozen=True):
    """Parts that a task needs and this process lacks. Holds names only, so it is cheap to keep."""

    needs: tuple[Need, ...]

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The missing parts, without duplicates."""
        return tuple(dict.fromkeys(need.missing for need in self.needs))


async def ignore_end(held: HeldLog, task: TaskState) -> None:
    """Do nothing when a task ends or waits."""


def nothing_missing(state: SessionState, task: TaskState) -> MissingParts | None:
    """Accept every task."""
    return None


def never_available(log_id: LogId, lack: MissingParts) -> bool:
    """Keep every blocked task blocked."""
    return False


class TaskBody(Struct, frozen=True, kw_only=True):
    """The functions that an activation calls for the current task."""

    work: Callable[[HeldLog, TaskState], Awaitable[None]]
    """Run the task until it ends or waits, and add TaskEnded or TaskSuspended. Adds neither if
    there is more to do: then it is called again. May raise Cancel to end the task."""
    end: Callable[[HeldLog, TaskState, TaskEnded], None]
    """Settle the open calls of the task and add the given end."""
    find_missing: Callable[[SessionState, TaskState], MissingParts | None] = nothing_missing
    """Return what the task needs to resume and this process lacks; None if it lacks nothing."""
    is_available: Callable[[LogId, MissingParts], bool] = never_available
    """Return whether this process has the missing parts now. Called in every sweep for every
    blocked log (measured: 3 us a log)."""
    notify: Callable[[HeldLog, TaskState], Awaitable[None]] = ignore_end
    """Notify other tasks of an end, of questions, or of a wait for tasks. Called after these are
    committed, before the lease is released; called again after a crash."""


class TaskStop(Struct):
    """Cancels the work on one task at most once."""

    task_id: TaskId
    here: "asyncio.Task[None] | None"
    """The asyncio task in which the work runs."""
    was_used: bool = False

    def __call__(self, task_id: TaskId) -> None:
        """Cancel the work, if `task_id` is this task."""
        if task_id == self.task_id and self.here is not None and not self.was_used:
            self.was_used = True
            self.here.cancel("the task was cancelled")

    @property
    def is_wanted(self) -> bool:
        """Whether the whole activation is being cancelled, and not only this task."""
        return not self.was_used and self.here is not None and self.here.cancelling() > 0

    async def absorb(self, clock: Clock) -> None:
        """Consume the cancellation, if it has not been delivered yet."""
        # asyncio delivers a requested cancellation at the next await: let it happen here.
        with suppress(asyncio.CancelledError):
            await clock.sleep(0)
        if self.here is not None and self.here.uncancel():
            raise asyncio.CancelledError  # the launcher is stopping as well


class QueueEnds:
    """Ends cancelled tasks in the queue while another task runs, and notifies their waiters.

    The one that runs may take hours, so a waiter is notified beside it. The fold keeps the ended
    tasks that others wait for in `aside`: after a crash the next holder notifies their waiters.
    """

    def __init__(self, notify: Callable[[HeldLog, TaskState], Awaitable[None]]) -> None:
        self._notify = notify
        self._beside: dict[LogId, asyncio.Task[None]] = {}
        """The notifications beside the work on a log."""

    def end(self, held: HeldLog) -> None:
        """End cancelled tasks in the queue while another task runs. They never started."""
        current, log_id = held.state.current, held.state.log_id
        if current is None or current.is_ended or current.is_suspended:
            return
        cancelled_tasks = [task for task in held.state.queue.values() if task.cancel_requested]
        for task in cancelled_tasks:
            held.add(cancelled(task), task.task_id)
        if cancelled_tasks:
            held.submit()
        if held.state.aside and log_id not in self._beside:
            self._beside[log_id] = beside = asyncio.create_task(self._notify_all(held))
            held.when_left(beside.cancel)
            beside.add_done_callback(lambda each: self._forget(log_id, each))

    async def notify(self, held: HeldLog) -> None:
        """Return when the waiters of all tasks that ended in the queue are notified."""
        if (beside := self._beside.get(held.state.log_id)) is not None:
            await asyncio.wait([beside])
        await self._notify_all(held)

    def _forget(self, log_id: LogId, beside: asyncio.Task[None]) -> None:
        """Drop a notification. What stopped it stops the activation, too, which reports it."""
        self._beside.pop(log_id, None)
        if not beside.cancelled():
            beside.exception()

    async def _notify_all(self, held: HeldLog) -> None:
        aside = held.state.aside
        while aside:
            await held.commit()
            await self._notify(held, aside[0])
            del aside[0]


def internal_error(message: str) -> ErrorDetail:
    """Return the error of a task that failed through a fault of the runtime."""
    return ErrorDetail(code=PenstockError.code, message=message, continuable=False)


def failed(task: TaskState, error: ErrorDetail) -> TaskEnded:
    """Return the event that ends a failed task."""
    return TaskEnded(
        status=TaskStatus.FAILED,
        iterations=task.main.iteration,
        usage=task.spent.usage(),
        error=error,
    )


def cancelled(task: TaskState) -> TaskEnded:
    """Return the event that ends a cancelled task."""
    return TaskEnded(
        status=TaskStatus.CANCELLED,
        iterations=task.main.iteration,
        usage=task.spent.usage(),
        error=ErrorDetail(code=Cancelled.code, message="the task was cancelled", continuable=False),
    )


def crashed(task: TaskState, lease: Lease) -> ErrorDetail:
    """Return the error of a task that killed its process repeatedly."""
    return internal_error(
        f"the process died {lease.recoveries} times in a row at the same place of this task, "
        f"{_place(task)}, {lease.alone} times with no other suspect at work. Look for the reason "
        "in the output of the process, then send the message again"
    )


def _place(task: TaskState) -> str:
    """Return the present activity of the task, in words, for the report of a crash."""
    brief, rounds = task.brief, task.main.rounds
    if isinstance(brief, FlowRequested):
        return f"in the flow {brief.command!r}"
    if isinstance(brief, CallRequested):
        return f"in the call of {brief.tool_id!r}"
    if isinstance(brief, ChildRequested) and not rounds:
        return f"in the child task {brief.title!r}"
    if not rounds or rounds[-1].is_settled:
        # A read tool runs before the reply that asked for it is written.
        return "while its model was asked or in a call that it had just asked for"
    names = sorted({repr(call.name) for call in rounds[-1].open_calls})
    return f"in {' or '.join(names)}"


def message_of(task: TaskState) -> MessageReceived | None:
    """Return the message of a task; for a child what its request says in place of one."""
    brief = task.brief
    if not isinstance(brief, ChildRequested):
        return brief if isinstance(brief, MessageReceived) else None
    empty = MessageReceived(message_id=MessageId(""), content="", permissions=brief.permissions)
    return replace(empty, selected_skills=brief.selected_skills)
