"""Cancellation of the work on one task, without effects on the work that follows.

`asyncio.Task.cancel` hits the next await of the activation, whatever that is. If the body finishes
before the CancelledError is delivered, the error would interrupt the commit of the task's end, or
the next task of the log. `absorb` waits for one pass of the event loop, takes the pending error and
lowers the task's count of cancel requests. If requests remain, the launcher is stopping the process
and the CancelledError is raised again. Shown by tests/engine/test_task_stop.py.
"""

import asyncio
from contextlib import suppress

from penstock.core.clock import Clock
from penstock.core.ids import TaskId


class TaskStop:
    """Cancels the work on one task at most once."""

    __slots__ = ("_here", "_task_id", "was_used")

    def __init__(self, task_id: TaskId) -> None:
        self._task_id = task_id
        self._here = asyncio.current_task()
        self.was_used = False

    def __call__(self, task_id: TaskId) -> None:
        """Cancel the work, if `task_id` is this task."""
        if task_id == self._task_id and self._here is not None and not self.was_used:
            self.was_used = True
            self._here.cancel("the task was cancelled")

    @property
    def is_wanted(self) -> bool:
        """Whether the whole activation is being cancelled, and not only this task."""
        return not self.was_used and self._here is not None and self._here.cancelling() > 0

    async def absorb(self, clock: Clock) -> None:
        """Consume the cancellation, if it has not been delivered yet."""
        # asyncio delivers a requested cancellation at the next await: let it happen here.
        with suppress(asyncio.CancelledError):
            await clock.sleep(0)
        if self._here is not None and self._here.uncancel():
            raise asyncio.CancelledError  # the launcher is stopping as well
