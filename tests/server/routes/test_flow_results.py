"""The outcome of a run: its status on the wire, and the states of its steps."""

from typing import Any

import pytest

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.codec import to_wire
from penstock.core.events.events import Event, Record, TaskEnded
from penstock.core.events.flow_events import (
    FlowNotified,
    Outcome,
    StepResult,
    StepSettled,
    StepStarted,
    StepStatus,
)
from penstock.core.ids import LogId, ProfileId, QuestionId, TaskId
from penstock.core.messages import Usage
from penstock.core.task import Question, QuestionKind, QuestionRecord, TaskRecord, TaskStatus
from penstock.server.routes.flow_results import StepStates, result_of, status_of

RUN = TaskId("task_1")
STEPS = [{"id": each, "type": "agent"} for each in ("a", "b")]
REJECTED = Envelope(Status.FAILED, {"status": "rejected"}, ErrorDetail(code="X", message="no"))


def task(status: TaskStatus, ended: TaskEnded | None = None) -> TaskRecord:
    return TaskRecord(
        task_id=RUN,
        log_id=LogId(RUN),
        kind="flow",
        status=status,
        profile_id=ProfileId("ann"),
        agent="demo",
        created_at=Moment(0),
        first_seq=1,
        outcome=None if ended is None else to_wire(ended),
    )


@pytest.mark.parametrize(
    ("status", "ended", "expected"),
    [
        (TaskStatus.QUEUED, None, "queued"),
        (TaskStatus.SUSPENDED, None, "suspended"),
        (TaskStatus.CANCELLED, TaskEnded(status=TaskStatus.CANCELLED), "aborted"),
        (TaskStatus.FAILED, TaskEnded(status=TaskStatus.FAILED), "error"),
        (TaskStatus.FAILED, TaskEnded(status=TaskStatus.FAILED, envelope=REJECTED), "rejected"),
    ],
)
def test_a_run_has_its_status_on_the_wire(
    status: TaskStatus, ended: TaskEnded | None, expected: str
) -> None:
    """`status`: success, error, aborted, rejected."""
    assert status_of(task(status, ended)) == expected


def test_a_run_that_has_not_ended_has_no_result() -> None:
    assert result_of(task(TaskStatus.RUNNING)) is None


def happen(states: StepStates, event: Event, path: str) -> dict[str, Any]:
    """Apply an event, and return the first step."""
    states.apply(Record(LogId(RUN), 1, Moment(0), RUN, CallPath(path), event))
    return states.to_wire()[0]


def test_a_step_from_its_start_to_its_end() -> None:
    states = StepStates(RUN, STEPS)
    assert states.to_wire()[0] == {"id": "a", "type": "agent", "state": "pending", "visits": 0}
    started = happen(states, StepStarted(step_id="a", visit=1), "task_1/a/1")
    assert (started["state"], started["visits"]) == ("running", 1)
    inner = StepSettled(
        step_id="a", visit=1, outcome=Outcome.SUCCESS, result=StepResult(summary="inner")
    )
    assert happen(states, inner, "task_1/b/1/a/1")["state"] == "running"
    blocked = StepResult(status=StepStatus.BLOCKED, summary="no key")
    again = StepSettled(step_id="a", visit=1, outcome=Outcome.SOFT, result=blocked, will_retry=True)
    assert happen(states, again, "task_1/a/1")["state"] == "running"
    settled = StepSettled(
        step_id="a",
        visit=2,
        outcome=Outcome.SOFT,
        result=blocked,
        duration_ms=5,
        usage=Usage(input_tokens=3),
    )
    ended = happen(states, settled, "task_1/a/2")
    assert (ended["state"], ended["summary"]) == ("blocked", "no key")
    assert (ended["duration"], ended["usage"]["inputTokens"]) == (5, 3)


@pytest.mark.parametrize("state", ["skipped", "aborted"])
def test_a_step_can_end_without_a_result(state: str) -> None:
    states = StepStates(RUN, STEPS)
    flow_notified = FlowNotified(kind=f"flow_step_{state}", body={"stepId": "a"})
    assert happen(states, flow_notified, "task_1/b/1")["state"] == "pending"
    assert happen(states, flow_notified, "task_1")["state"] == state


def test_a_step_with_an_open_question_is_waiting() -> None:
    states = StepStates(RUN, STEPS)
    happen(states, StepStarted(step_id="a", visit=1), "task_1/a/1")
    asked = [
        QuestionRecord(
            question=Question(
                question_id=QuestionId("q_1"), kind=QuestionKind.FORK, text="?", path=CallPath(path)
            ),
            log_id=LogId(RUN),
            task_id=RUN,
            profile_id=ProfileId("ann"),
            agent="demo",
            asked_at=Moment(0),
        )
        for path in ("task_1/a/1/1/ask_user#1", "task_1/b/1", "task_1")
    ]
    states.wait(asked)
    assert [each["state"] for each in states.to_wire()] == ["waiting", "pending"]
