"""The port by which an activation runs a task: work, end, requirements, notification."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from penstock.core.events.events import TaskEnded
from penstock.core.ids import LogId
from penstock.core.task import Missing
from penstock.engine.held_log import HeldLog
from penstock.engine.state import SessionState
from penstock.engine.task_state import TaskState


class Need(Struct, frozen=True):
    """One requirement of a task, by name."""

    missing: Missing
    """The kind of part that is missing if this process lacks it."""
    agent: str | None = None
    """The agent that the model or tool belongs to; None means the project."""
    is_worker: bool = False
    """The agent works for a flow or a tool, so it must have a file."""


class MissingParts(Struct, frozen=True):
    """What a task needs and this process lacks. Holds names only, so it is cheap to keep."""

    needs: tuple[Need, ...]

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The missing parts, without duplicates."""
        return tuple(dict.fromkeys(need.missing for need in self.needs))


async def ignore_end(held: HeldLog, task: TaskState) -> None:
    """Do nothing when a task ends."""


def lack_nothing(state: SessionState, task: TaskState) -> MissingParts | None:
    """Accept every task."""
    return None


def have_nothing(log_id: LogId, lack: MissingParts) -> bool:
    """Keep every blocked task blocked."""
    return False


class TaskBody(Struct, frozen=True, kw_only=True):
    """The functions that an activation calls for the current task."""

    work: Callable[[HeldLog, TaskState], Awaitable[None]]
    """Run the task until it ends or waits, and add TaskEnded or TaskSuspended. Adds neither if
    there is more to do: then it is called again. May raise Cancel to end the task."""
    end: Callable[[HeldLog, TaskState, TaskEnded], None]
    """Settle the open calls of the task and add the given end."""
    lacks: Callable[[SessionState, TaskState], MissingParts | None] = lack_nothing
    """Return what the task needs to resume and this process lacks; None if it lacks nothing."""
    has: Callable[[LogId, MissingParts], bool] = have_nothing
    """Return whether this process has the missing parts now. Called in every sweep for every
    blocked log (measured: 3 us a log)."""
    notify: Callable[[HeldLog, TaskState], Awaitable[None]] = ignore_end
    """Notify the run's waiters. Called after the end is committed, before the lease is released;
    called again after a crash."""
