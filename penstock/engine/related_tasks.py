"""Relations of a task to other tasks: its children, what it waits for, what waits for it.

The fold calls these functions for events of other tasks, and for events of queued tasks. Shown by
tests/engine/test_related_tasks.py.
"""

from penstock.core.events.child_events import ChildEvent, ChildRequested, TreeAsked, WaiterAdded
from penstock.core.events.events import CancelRequested, TaskBlocked
from penstock.core.events.flow_events import RunEnded
from penstock.core.events.schedule_events import ScheduleFired
from penstock.engine.task_state import TaskState


def may_start(task: TaskState) -> bool:
    """Whether nothing must end before it starts. Only a child may wait for that."""
    if not isinstance(brief := task.brief, ChildRequested) or task.cancel_requested:
        return True
    return brief.join.is_met(task.waits.ended_runs)


def hear(
    task: TaskState, event: RunEnded | WaiterAdded | CancelRequested | TaskBlocked | ScheduleFired
) -> None:
    """Record an event of a queued task."""
    if isinstance(event, CancelRequested):
        task.cancel_requested, task.cancelled_by = True, event.by
    elif isinstance(event, TaskBlocked):
        task.blocked_on = event.blocked_on
    elif isinstance(event, ScheduleFired):
        task.fired = event
    else:
        relate(task, event)


def relate(task: TaskState, event: RunEnded | ChildEvent, tick: int = 0) -> None:
    """Record the end of another task, children of this one, or a task that waits for it.

    An end resumes the task if it was all that a call waited for.
    """
    if isinstance(event, ChildRequested):
        return
    waits = task.own_waits()
    if isinstance(event, TreeAsked):
        if event.question is not None:
            waits.below[event.question.question_id] = None
        elif event.answered is not None:
            waits.below.pop(event.answered, None)
        return
    if isinstance(event, RunEnded):
        if waits.end_run(event.run_id, event.status, tick):
            task.is_suspended = False
        return
    if isinstance(event, WaiterAdded):
        waits.waiters[event.waiter] = event.waiter_log
        return
    waits.children.update((child, bool(event.batch_id)) for child in event.children)
    if event.key:
        waits.spawned[event.key] = (event.children[0], event.digest)
