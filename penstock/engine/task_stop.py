"""The end of the work on one task that somebody wants: it hits nothing that follows."""

import asyncio
from contextlib import suppress

from penstock.core.clock import Clock
from penstock.core.ids import TaskId


class TaskStop:
    """Cancels the work on one task, once, when somebody wants the task to end."""

    __slots__ = ("_here", "_task_id", "was_used")

    def __init__(self, task_id: TaskId) -> None:
        self._task_id = task_id
        self._here = asyncio.current_task()
        self.was_used = False

    def __call__(self, task_id: TaskId) -> None:
        """Cancel the work, if it is about this task."""
        if task_id == self._task_id and self._here is not None and not self.was_used:
            self.was_used = True
            self._here.cancel("the task was cancelled")

    @property
    def is_wanted(self) -> bool:
        """Whether the end of all work here was asked for, and not that of the task."""
        return not self.was_used and self._here is not None and self._here.cancelling() > 0

    async def absorb(self, clock: Clock) -> None:
        """Take the cancellation in, if it has not come yet: it must hit nothing that follows."""
        with suppress(asyncio.CancelledError):
            await clock.sleep(0)
        if self._here is not None and self._here.uncancel():
            raise asyncio.CancelledError  # the launcher wants to end as well
