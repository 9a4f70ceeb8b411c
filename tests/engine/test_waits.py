"""What tasks wait for, and what they share until then."""

import gc
from typing import Any

import pytest

from penstock.core.events.events import ParkedCall, QuestionAnswered, TaskSuspended
from penstock.core.ids import QuestionId, TaskId
from penstock.core.task import QuestionStatus
from penstock.engine.task_state import TaskState
from penstock.engine.waits import NO_RECORDS, NO_WAITS, ToolRecords, Waits
from tests.kit.session_events import ONE, path_of

RUN = TaskId("task_9")
ANSWER = QuestionAnswered(question_id=QuestionId("q_1"), status=QuestionStatus.CANCELLED)


def test_a_task_has_its_own_waits_and_records_only_once_it_needs_them() -> None:
    task, other = TaskState(ONE, None), TaskState(ONE, None)
    assert (task.waits, task.records) == (NO_WAITS, NO_RECORDS)
    task.own_waits().parked[path_of("a")] = ParkedCall(path_of("a"), 5)
    task.own_records().notes[path_of("a"), "step"] = 1
    assert list(task.own_waits().parked) == [path_of("a")]
    assert (list(task.waits.parked), len(task.records.notes)) == ([path_of("a")], 1)
    assert (other.waits is NO_WAITS, other.records is NO_RECORDS) == (True, True)


@pytest.mark.parametrize("shared", [NO_WAITS, NO_RECORDS])
def test_what_tasks_share_refuses_changes(shared: Waits | ToolRecords) -> None:
    maps: list[Any] = [getattr(shared, name) for name in shared.__struct_fields__]
    maps = [each for each in maps if each != 0]
    assert len(maps) == (14 if shared is NO_WAITS else 5)
    for each in maps:
        with pytest.raises(TypeError):
            each["a"] = 1


def test_no_event_can_change_the_waits_that_tasks_share() -> None:
    with pytest.raises(AttributeError):
        NO_WAITS.answer(ANSWER, 1)
    with pytest.raises(AttributeError):
        NO_WAITS.suspend(TaskSuspended(questions=(), runs=(RUN,)))
    with pytest.raises(TypeError):
        NO_WAITS.end_run(RUN)
    assert NO_WAITS.arrivals == 0


def test_a_run_that_ended_before_it_was_awaited_is_no_arrival() -> None:
    waits = Waits()
    assert (waits.end_run(RUN), waits.arrivals) == (False, 0)
    assert waits.suspend(TaskSuspended(questions=(), runs=(RUN,))) is False
    assert not waits.awaits(RUN)


def test_a_new_task_is_few_objects() -> None:
    TaskState(ONE, None)
    gc.disable()
    try:
        before = gc.get_count()[0]
        tasks = [TaskState(ONE, None) for _ in range(100)]
        made = gc.get_count()[0] - before
    finally:
        gc.enable()
    assert len(tasks) == 100
    assert made <= 18 * 100
