"""What an activation does with the current task, and what that takes."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from penstock.core.events.events import TaskEnded
from penstock.core.ids import LogId
from penstock.core.task import Missing
from penstock.engine.held_log import HeldLog
from penstock.engine.state import SessionState
from penstock.engine.task_state import TaskState


class Need(Struct, frozen=True):
    """One thing that a task needs, by its name."""

    missing: Missing
    """What is missing if this process does not have it."""
    agent: str | None = None
    """The agent whose model or tool is meant; None means the project's."""
    is_worker: bool = False
    """The agent works for a flow or a tool, so it is one of those that have a file."""


class MissingParts(Struct, frozen=True):
    """What a task needs and this process does not have: names only, so it is cheap to keep."""

    needs: tuple[Need, ...]

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Everything that is missing, each once."""
        return tuple(dict.fromkeys(need.missing for need in self.needs))


async def ignore_end(held: HeldLog, task: TaskState) -> None:
    """Do nothing when a task ends."""


def lack_nothing(state: SessionState, task: TaskState) -> MissingParts | None:
    """Let every task go on."""
    return None


def have_nothing(log_id: LogId, lack: MissingParts) -> bool:
    """Leave every blocked task blocked."""
    return False


class TaskBody(Struct, frozen=True, kw_only=True):
    """What an activation does with the current task."""

    work: Callable[[HeldLog, TaskState], Awaitable[None]]
    """Go on with the task until it has ended or waits, and add TaskEnded or TaskSuspended; nothing,
    when there is more to do. May raise Cancel when the task is to end."""
    end: Callable[[HeldLog, TaskState, TaskEnded], None]
    """Close what is open in the task, and add this end."""
    lacks: Callable[[SessionState, TaskState], MissingParts | None] = lack_nothing
    """Return what the task needs to resume and this process does not have; None if nothing."""
    has: Callable[[LogId, MissingParts], bool] = have_nothing
    """Return whether this process has by now what a task of the log lacked. Asked in every sweep
    for every blocked log."""
    tell: Callable[[HeldLog, TaskState], Awaitable[None]] = ignore_end
    """Notify the run's waiters. Called after the end is committed, before the lease is released;
    called again after a crash."""
