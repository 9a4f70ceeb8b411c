"""Ends of tasks that fail, are cancelled or crash, and the usage of a task."""

from penstock.core.call_errors import Cancelled
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import PenstockError
from penstock.core.events.events import TaskEnded
from penstock.core.messages import Usage
from penstock.core.task import TaskStatus
from penstock.engine.task_state import TaskState
from penstock.store.logs.log import Lease


def internal_error(message: str) -> ErrorDetail:
    """Return the error of a task that failed through a fault of the runtime."""
    return ErrorDetail(code=PenstockError.code, message=message, continuable=False)


def failed(task: TaskState, error: ErrorDetail) -> TaskEnded:
    """Return the event that ends a failed task."""
    return TaskEnded(
        status=TaskStatus.FAILED,
        iterations=task.main.iteration,
        usage=usage_of(task),
        error=error,
    )


def cancelled(task: TaskState) -> TaskEnded:
    """Return the event that ends a cancelled task."""
    return TaskEnded(
        status=TaskStatus.CANCELLED,
        iterations=task.main.iteration,
        usage=usage_of(task),
        error=ErrorDetail(code=Cancelled.code, message="the task was cancelled", continuable=False),
    )


def usage_of(task: TaskState) -> Usage:
    """Return the tokens, calls and cost of the task so far."""
    return Usage(
        input_tokens=task.input_tokens,
        output_tokens=task.output_tokens,
        model_calls=task.model_calls,
        tool_calls=task.tool_calls,
        cost_usd=task.cost_usd if task.model_calls else None,
    )


def crashed(task: TaskState, lease: Lease) -> ErrorDetail:
    """Return the error of a task that killed its process repeatedly."""
    return internal_error(
        f"the process died {lease.recoveries} times in a row at the same place of this task, "
        f"{task.place}, {lease.alone} times with no other suspect at work. Look for the reason in "
        "the output of the process, then send the message again"
    )
