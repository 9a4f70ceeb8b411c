"""Exit codes of commands."""

from penstock.core.envelope import Status
from penstock.core.task import TaskStatus

FINE = 0
"""The command succeeded."""
FAILED = 1
WRONG_USAGE = 2
"""The arguments are invalid. Typer uses the same code."""
INVALID_INPUT = 3
WAITING = 4
"""The call, run or message waits for an answer from a person."""
INTERRUPTED = 130

OF_CALLS = {
    Status.SUCCESS: FINE,
    Status.VALIDATION_ERROR: INVALID_INPUT,
    Status.SUSPENDED: WAITING,
}
"""Any other status is FAILED."""
OF_TASKS = {TaskStatus.SUCCEEDED: FINE, TaskStatus.SUSPENDED: WAITING, TaskStatus.BLOCKED: WAITING}
"""Any other status is FAILED."""
