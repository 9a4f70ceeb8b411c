"""Joins: which ends are enough."""

import pytest

from penstock.core.call import CallPath
from penstock.core.events.child_events import Join
from penstock.core.ids import TaskId
from penstock.core.task import TaskStatus

A, B = TaskId("task_1"), TaskId("task_2")
GOOD, BAD = TaskStatus.SUCCEEDED, TaskStatus.FAILED
MET = [
    ({}, {}, False),
    ({}, {A: GOOD}, False),
    ({}, {A: GOOD, B: BAD}, True),
    ({}, {A: None, B: None, TaskId("task_3"): GOOD}, True),
    ({"any": True}, {}, False),
    ({"any": True}, {B: BAD}, True),
    ({"any": True, "needs_success": True}, {B: BAD}, False),
    ({"any": True, "needs_success": True}, {B: GOOD}, True),
    ({"any": True, "needs_success": True}, {A: BAD, B: BAD}, True),
]


@pytest.mark.parametrize(("how", "ended", "is_met"), MET)
def test_a_join_is_met_by_all_by_one_or_by_a_success(
    how: dict[str, bool], ended: dict[TaskId, TaskStatus | None], is_met: bool
) -> None:
    assert Join(CallPath("p"), (A, B), **how).is_met(ended) is is_met
