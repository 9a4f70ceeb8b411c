"""What is odd in a run: its readers are told, and its result says so; the run goes on."""

from collections.abc import Iterator
from typing import Any

from penstock.core.call import CallPath
from penstock.core.flow_events import FlowNotified
from penstock.engine.ledger import Ledger
from penstock.engine.task_state import TaskState

WARNING = "flow_warning"


def warn(ledger: Ledger, frame: CallPath, message: str, **body: Any) -> None:
    """Tell readers of a run that something is odd; nothing is told twice in a frame."""
    told = {"message": message, **body}
    if not any(path == frame and each.body == told for path, each in _told_in(ledger.task)):
        ledger.add(FlowNotified(kind=WARNING, body=told), frame)


def warn_once(ledger: Ledger, frame: CallPath, message: str) -> None:
    """Tell readers of a run that something is odd, unless they were told so before."""
    body = {"message": message}
    if not any(each.body == body for _, each in _told_in(ledger.task)):
        ledger.add(FlowNotified(kind=WARNING, body=body), frame)


def warnings_of(task: TaskState) -> list[str]:
    """Return what was odd, each once, in its order."""
    told = (each for _, each in _told_in(task) if each.kind == WARNING)
    return list(dict.fromkeys(str(each.body["message"]) for each in told))


def _told_in(task: TaskState) -> Iterator[tuple[CallPath | None, FlowNotified]]:
    return ((path, event) for path, event in task.story if isinstance(event, FlowNotified))
