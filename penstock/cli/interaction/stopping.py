"""Cancels a task at Ctrl-C, and explains its state to a person who does not wait for its end."""

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from penstock.app.runtime import Runtime
from penstock.cli.exit_codes import INTERRUPTED
from penstock.cli.interaction.background import Background
from penstock.cli.terminal.output import note
from penstock.core.errors import PenstockError
from penstock.core.ids import TaskId
from penstock.core.task import TaskRecord

Tell = Callable[[str], None]
"""Prints a message for the person, next to the command's output."""


def ending(task: TaskRecord, status: str) -> str:
    """Return the line about a task that a command cancelled."""
    soon = "" if task.status.is_final else "; it ends as soon as its running tools return"
    return f"{task.task_id} {status}{soon}"


class TaskStopper:
    """A task that the person wants to end. Creating a TaskStopper cancels it."""

    def __init__(
        self, runtime: Runtime, background: Background, task_id: TaskId, *, tell: Tell = note
    ) -> None:
        self._task_id = task_id
        self._tell = tell
        self._is_cancelled = False
        """The cancellation is stored: the task ends now or in the next process that resumes it."""
        self.seconds = runtime.parts.limits.shutdown_seconds
        """How long to wait for the end."""
        tell("Cancelling. Press Ctrl-C again to exit at once.")
        try:
            background.do(runtime.cancel(task_id))
        except PenstockError:
            return
        self._is_cancelled = True

    @property
    def farewell(self) -> str:
        """The state of the task for a person who does not wait for its end."""
        if self._is_cancelled:
            follow = f"penstock tasks events {self._task_id} --follow"
            return f"The task has not ended yet. A server ends it when it starts, or run: {follow}"
        cancel = f"penstock tasks cancel {self._task_id}"
        return f"The task could not be cancelled; a server would continue it. Run: {cancel}"

    def leave(self) -> NoReturn:
        """End the process at once, without cleanup: the next process needs only what is on disk."""
        self._tell(self.farewell)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
