"""Effects of the end of a task on other tasks: they are notified, or cancelled.

Questions of a task have effects, too: `chat/children/questions` reports them to its root.

EndNotifier reports the end of a task to each task that waits for it: the call that started a run,
the parent of a child, and tasks that depend on it. It cancels what the task no longer needs: runs
that its calls awaited, children of its batches, and, unless it succeeded, all of its children.
Tasks that it waited for without having started them continue.

All of this happens after the end is committed and before the lease is released. After a crash in
between it is repeated, which is harmless: the fold keeps one end of each task, and the store
refuses events for a task that has ended. Shown by tests/chat/children/test_ends.py.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

from penstock.chat.children.questions import TreeQuestions
from penstock.core.errors import NotFound, TaskOver
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.events import CancelRequested, Entry, Event, MessageReceived
from penstock.core.events.flow_events import FlowRequested, RunEnded
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskStatus
from penstock.engine.held_log import HeldLog
from penstock.engine.task_state import TaskState
from penstock.engine.waits import NO_WAITS
from penstock.store.logs.log import Log
from penstock.store.projections import Projections


class EndNotifier:
    """Reports ends of tasks to those that wait, and cancels tasks that nothing needs."""

    def __init__(
        self, log: Log, wake: Callable[[LogId], None], projections: Projections | None = None
    ) -> None:
        self._log = log
        self._wake = wake
        self._questions = None if projections is None else TreeQuestions(log, projections)
        """Reports questions of children; None reports none."""

    async def notify(self, held: HeldLog, task: TaskState) -> None:
        """Do what follows from the end or a wait of a task. Repeating this is harmless."""
        if task.waits is NO_WAITS and type(task.brief) is MessageReceived:
            return
        if self._questions is not None:
            await self._questions.report(held, task)
        if task.is_ended:
            await self._report_end(task)

    async def _report_end(self, task: TaskState) -> None:
        ended = RunEnded(run_id=task.task_id, status=task.ended_as)
        for waiter, log_id in _waiters(task):
            await self._send(log_id, ended, waiter)
        if task.waits is not NO_WAITS:
            for task_id in _useless(task):
                await self._send(LogId(task_id), CancelRequested(), task_id)

    async def _send(self, log_id: LogId, event: Event, task_id: TaskId) -> None:
        """Append an event to a log, unless its task has ended or was erased."""
        with suppress(TaskOver, NotFound):
            await self._log.send(log_id, [Entry(event, task_id)], on_way=self._wake)


def _waiters(task: TaskState) -> Iterator[tuple[TaskId, LogId]]:
    brief = task.brief
    if isinstance(brief, FlowRequested) and brief.waiter_log and brief.waiter:
        yield brief.waiter, brief.waiter_log
    elif isinstance(brief, ChildRequested) and brief.parent:
        yield brief.parent, brief.parent_log
    yield from task.waits.waiters.items()


def _useless(task: TaskState) -> list[TaskId]:
    """Return what a task started, and nothing needs after its end."""
    waits, is_well = task.waits, task.ended_as is TaskStatus.SUCCEEDED
    children = (each for each, of_batch in waits.children.items() if of_batch or not is_well)
    return sorted({*waits.awaited, *(child for child in children if child not in waits.ended_runs)})
