"""What an activation is told about tasks: how to go on with one, and what that takes."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from penstock.core.events import TaskEnded
from penstock.core.task import Missing
from penstock.engine.held import HeldLog
from penstock.engine.state import SessionState
from penstock.engine.task_state import TaskState


async def tell_nobody(held: HeldLog, task: TaskState) -> None:
    """Tell nobody that a task has ended."""


def lack_nothing(state: SessionState, task: TaskState) -> tuple[Missing, ...]:
    """Let every task go on."""
    return ()


class TaskBody(Struct, frozen=True, kw_only=True):
    """What an activation does with the task whose turn it is."""

    work: Callable[[HeldLog, TaskState], Awaitable[None]]
    """Go on with the task until it has ended or waits, and add TaskEnded or TaskSuspended; nothing,
    when there is more to do. May raise Cancel when the task is to end."""
    end: Callable[[HeldLog, TaskState, TaskEnded], None]
    """Close what is open in the task, and add this end."""
    lacks: Callable[[SessionState, TaskState], tuple[Missing, ...]] = lack_nothing
    """Return what the task needs to go on, and this process does not have."""
    tell: Callable[[HeldLog, TaskState], Awaitable[None]] = tell_nobody
    """Tell whom it concerns that a task has ended. It comes once the end is on disk, before the log
    is given back; and again, when a crash came in between."""
