"""The outcome of a flow run: its status on the wire, its result, its steps."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.app.run_feed import STATUS
from penstock.core.call import frame_above
from penstock.core.events.events import Record
from penstock.core.events.flow_events import FlowNotified, StepSettled, StepStarted, StepStatus
from penstock.core.ids import TaskId
from penstock.core.task import QuestionRecord, TaskRecord
from penstock.flows.runs.plan import RunStatus

BEFORE_THE_END = ("queued", "blocked", "running", "suspended")
"""The statuses of a run that has not ended."""


def result_of(task: TaskRecord) -> dict[str, Any] | None:
    """Return the FlowResult that a run ended with; None if it has none."""
    envelope = (task.outcome or {}).get("envelope") or {}
    output = envelope.get("output")
    return output if isinstance(output, dict) else None


def status_of(task: TaskRecord) -> str:
    """Return the status of a run on the wire."""
    if not task.status.is_final:
        return task.status.value
    if (result := result_of(task)) is not None:
        return str(result["status"])
    return STATUS.get(task.status, RunStatus.ERROR).value


class StepStates:
    """Folds the log of a run into the state of each step, without the steps of nested flows."""

    def __init__(self, task_id: TaskId, steps: Sequence[Mapping[str, Any]]) -> None:
        self._frame = str(task_id)
        self._parts = {
            step["id"]: {"id": step["id"], "type": step["type"], "state": "pending", "visits": 0}
            for step in steps
        }

    def apply(self, record: Record) -> None:
        """Fold one event."""
        path, event = record.path or "", record.event
        is_own = frame_above(path) == self._frame
        match event:
            case StepStarted(step_id=step_id, visit=visit) if is_own:
                self._parts[step_id] |= {"state": "running", "visits": visit}
            case StepSettled(step_id=step_id, will_retry=False) if is_own:
                self._parts[step_id] |= _settled(event)
            case FlowNotified(kind="flow_step_skipped", body=body) if path == self._frame:
                self._parts[body["stepId"]]["state"] = StepStatus.SKIPPED.value
            case FlowNotified(kind="flow_step_aborted", body=body) if path == self._frame:
                self._parts[body["stepId"]]["state"] = StepStatus.ABORTED.value
            case _:
                pass

    def wait(self, asked: Sequence[QuestionRecord]) -> None:
        """Mark the steps of open questions as waiting."""
        for record in asked:
            below = record.question.path.removeprefix(f"{self._frame}/")
            part = self._parts.get(below.split("/")[0])
            if part is not None and part["state"] == "running":
                part["state"] = "waiting"

    def to_wire(self) -> list[dict[str, Any]]:
        """Return the steps in the order of the file."""
        return list(self._parts.values())


def _settled(event: StepSettled) -> dict[str, Any]:
    """Return the outcome of a visit of a step, and its cost."""
    return {
        "state": event.result.status.value,
        "summary": event.result.summary,
        "duration": event.duration_ms,
        "usage": event.usage.to_wire(),
    }
