"""Warnings of a run: stored as events, and listed in its result. The run continues."""

from collections.abc import Iterator
from typing import Any

from penstock.core.call import CallPath
from penstock.core.events.flow_events import FlowNotified
from penstock.engine.ledger import Ledger
from penstock.engine.task_state import TaskState

WARNING = "flow_warning"


def warn(ledger: Ledger, frame: CallPath, message: str, **body: Any) -> None:
    """Add a warning event, unless this frame already has an equal one."""
    body = {"message": message, **body}
    if not any(path == frame and event.body == body for path, event in _notices(ledger.task)):
        ledger.add(FlowNotified(kind=WARNING, body=body), frame)


def warn_once(ledger: Ledger, frame: CallPath, message: str) -> None:
    """Add a warning event, unless the task already has one with the same message."""
    body = {"message": message}
    if not any(event.body == body for _, event in _notices(ledger.task)):
        ledger.add(FlowNotified(kind=WARNING, body=body), frame)


def warnings_of(task: TaskState) -> list[str]:
    """Return the distinct warnings of a task, in order."""
    warnings = (event for _, event in _notices(task) if event.kind == WARNING)
    return list(dict.fromkeys(str(event.body["message"]) for event in warnings))


def _notices(task: TaskState) -> Iterator[tuple[CallPath | None, FlowNotified]]:
    return ((path, event) for path, event in task.story if isinstance(event, FlowNotified))
