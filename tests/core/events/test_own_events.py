"""Suspensions that need no person."""

import pytest

from penstock.core.call import CallPath
from penstock.core.events.child_events import Join
from penstock.core.events.events import Event, TaskResumed, TaskSuspended
from penstock.core.events.own_events import waits_for_tasks
from penstock.core.ids import QuestionId, TaskId

ONE = TaskId("task_1")
JOINS = (Join(CallPath("p"), (ONE,)),)
WAITS: list[tuple[Event, bool]] = [
    (TaskSuspended(questions=(), joins=JOINS), True),
    (TaskSuspended(questions=(QuestionId("q_1"),), joins=JOINS), False),
    (TaskSuspended(questions=(), runs=(ONE,), joins=JOINS), False),
    (TaskSuspended(questions=()), False),
    (TaskResumed(), False),
]


@pytest.mark.parametrize(("event", "alone"), WAITS)
def test_a_task_waits_for_tasks_alone_without_a_question_or_a_run(
    event: Event, alone: bool
) -> None:
    assert waits_for_tasks(event) is alone
