"""Ends a task early (cancelled or failed) and settles everything that is open in it.

Every open call gets an outcome before TaskEnded, because a provider refuses a history with an
unanswered call. A write that had started may have happened, so it is INTERRUPTED; every other call
is CANCELLED. Open questions are closed. Paths of calls that the model asked for but that never
started are computed as the agent loop would, so a call is never settled under two paths.
Shown by tests/chat/test_task_closer.py.
"""

from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.call_errors import CallError, Cancelled, Interrupted, NotPermitted
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import (
    ConfigError,
    HookFailed,
    HookRefused,
    ModelError,
    ModelUnavailable,
    NotFound,
    PenstockError,
    PromptNotResolved,
)
from penstock.core.events.events import CallSettled, TaskEnded, TaskStarted
from penstock.core.ids import CallId
from penstock.core.json_values.json_text import compact
from penstock.core.task import TaskStatus
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Occurrences
from penstock.engine.suspend import withdraw
from penstock.engine.task_state import TaskState

SUSPENSION_TIMEOUT = "SUSPENSION_TIMEOUT"
ENDS = (
    *(ModelError, ConfigError, NotFound, NotPermitted, PromptNotResolved, HookRefused),
    HookFailed,
)
"""Errors that end the task of a message with a reason."""


class TaskCloser:
    """Ends tasks that are cancelled or that fail with open calls."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def end(self, held: HeldLog, task: TaskState, ended: TaskEnded) -> None:
        """Close open questions and calls, and add the given end."""
        if task.started is None:
            held.add(TaskStarted(), task.task_id)
        withdraw(held, task)
        self._settle_calls(held, task, ended)
        held.add(replace(ended, usage=task.spent.usage()), task.task_id)

    def _settle_calls(self, held: HeldLog, task: TaskState, ended: TaskEnded) -> None:
        rounds = task.main.rounds
        names: dict[CallPath, tuple[str, CallId | None]] = {}
        if rounds and not rounds[-1].is_settled:
            reply = rounds[-1].reply
            seen = Occurrences(f"{task.task_id}/{reply.iteration}", self._key)
            for call in reply.calls:
                path = seen.path(call.name, call.arguments, call.arguments_text)
                names[path] = (call.name, call.call_id)
        for path in task.entered:
            names.setdefault(path, (path.rpartition("/")[2].partition("#")[0], None))
        how = "was cancelled" if ended.status is TaskStatus.CANCELLED else "failed"
        for path, (tool_id, call_id) in names.items():
            if path not in task.settled:
                settled = _settled(tool_id, call_id, how, is_cut=path in task.entered)
                held.add(settled, task.task_id, path)


def _settled(tool_id: str, call_id: CallId | None, how: str, *, is_cut: bool) -> CallSettled:
    error = _error(how, is_cut=is_cut)
    context = compact({"error": str(error), "code": error.code})
    return CallSettled(
        tool_id=tool_id, envelope=error.envelope(), call_id=call_id, context=context, ran=is_cut
    )


def _error(how: str, *, is_cut: bool) -> CallError:
    if is_cut:
        return Interrupted(f"the task {how} while this ran: it may or may not have happened")
    return Cancelled(f"the task {how}; this was not done")


def detail(error: PenstockError) -> ErrorDetail:
    """Return the detail of an error that ends a task, for its TaskEnded event."""
    retryable = isinstance(error, ModelError) and error.retryable
    code = error.code
    if isinstance(error, ConfigError):
        code = ModelUnavailable.code
    elif isinstance(error, NotFound):
        code = PenstockError.code
    wait = error.retry_after if isinstance(error, ModelUnavailable) else None
    return ErrorDetail(
        code=code,
        message=str(error),
        retryable=retryable,
        continuable=False,
        details=error.details if wait is None else {"retryAfter": wait},
    )


def overdue(task: TaskState) -> ErrorDetail:
    """Return the error of a task in which no person answered for the second time."""
    seconds = None if task.fired is None else task.fired.suspension_seconds
    message = f"two questions of this task were not answered within {seconds} seconds each"
    return ErrorDetail(code=SUSPENSION_TIMEOUT, message=message, continuable=False)
