"""How a command ends, as a number."""

from penstock.core.envelope import Status
from penstock.core.task import TaskStatus

FINE = 0
FAILED = 1
WRONG_USAGE = 2
"""Typer's own."""
INVALID_INPUT = 3
WAITING = 4
"""For a person."""
INTERRUPTED = 130

OF_CALLS = {
    Status.SUCCESS: FINE,
    Status.VALIDATION_ERROR: INVALID_INPUT,
    Status.SUSPENDED: WAITING,
}
"""Any other status is FAILED."""
OF_TASKS = {TaskStatus.SUCCEEDED: FINE, TaskStatus.SUSPENDED: WAITING, TaskStatus.BLOCKED: WAITING}
"""Any other status is FAILED."""
