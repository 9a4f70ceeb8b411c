"""Ends a task at Ctrl-C, and tells a person who does not wait for that what becomes of it."""

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
"""Says something to the person, beside what the command prints."""


def ending(task: TaskRecord, status: str) -> str:
    """Return the line that tells what became of a task that a command ended."""
    soon = "" if task.status.is_final else ", ends as soon as its tools let it"
    return f"{task.task_id} {status}{soon}"


class TaskStopper:
    """A task that a person wants to end; it is cancelled when this is made."""

    def __init__(
        self, runtime: Runtime, background: Background, task_id: TaskId, *, tell: Tell = note
    ) -> None:
        self._task_id = task_id
        self._tell = tell
        self._is_cancelled = False
        """The task ends, now or when somebody sees to it again."""
        self.seconds = runtime.parts.limits.shutdown_seconds
        """How long that may take."""
        tell("Cancelling; Ctrl-C again leaves at once.")
        try:
            background.do(runtime.cancel(task_id))
        except PenstockError:
            return
        self._is_cancelled = True

    @property
    def farewell(self) -> str:
        """What becomes of the task when nobody waits for it."""
        if self._is_cancelled:
            look = f"penstock tasks events {self._task_id} --follow"
            return f"It has not ended yet; it ends with the next server, or now: {look}"
        end = f"penstock tasks cancel {self._task_id}"
        return f"It could not be cancelled and goes on with the next server; to end it: {end}"

    def leave(self) -> NoReturn:
        """End the process at once: what is on disk is all that the next one needs."""
        self._tell(self.farewell)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
