"""Relations of a task to other tasks."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.events.child_events import ChildrenSpawned, Dependency, TreeAsked, WaiterAdded
from penstock.core.events.events import CancelRequested, TaskEnded, TaskStarted
from penstock.core.events.flow_events import RunEnded
from penstock.core.ids import LogId, QuestionId, TaskId
from penstock.core.task import Question, QuestionKind, TaskStatus
from penstock.engine.related_tasks import hear, may_start, relate
from penstock.engine.session_state import SessionState
from penstock.engine.task_state import TaskState
from tests.kit.child_events import STORED_OF_CHILDREN
from tests.kit.session_events import LOG, message

CHILD: Any = STORED_OF_CHILDREN[0][0]
ONE, TWO, THREE = TaskId("task_1"), TaskId("task_2"), TaskId("task_3")
WAITING = replace(CHILD, dependencies=(Dependency(TWO, "first"),))


def test_a_child_starts_after_what_it_depends_on() -> None:
    task = TaskState(ONE, WAITING)
    assert not may_start(task)
    hear(task, RunEnded(run_id=TWO, status=TaskStatus.FAILED))
    assert may_start(task)


@pytest.mark.parametrize("brief", [None, CHILD])
def test_other_tasks_start_at_once(brief: Any) -> None:
    assert may_start(TaskState(ONE, brief))


def test_a_cancelled_child_may_start_so_that_it_ends() -> None:
    task = TaskState(ONE, WAITING)
    hear(task, CancelRequested())
    assert may_start(task)


def test_the_open_questions_below_a_root_are_known() -> None:
    task, one, two = TaskState(ONE, None), QuestionId("q_1"), QuestionId("q_2")
    for question_id in (one, two, one):
        question = Question(
            question_id=question_id, kind=QuestionKind.ASK_USER, text="?", path=CallPath("t/1/a#b")
        )
        relate(task, TreeAsked(asker=TWO, question=question))
    relate(task, TreeAsked(asker=TWO, answered=one))
    relate(task, TreeAsked(asker=TWO, answered=one, answer={"text": "yes"}))
    relate(task, TreeAsked(open=(two,)))
    assert list(task.waits.below) == [two]
    assert not task.is_suspended


def test_children_and_waiters_are_known() -> None:
    task = TaskState(ONE, None)
    relate(task, ChildrenSpawned(children=(TWO,), key="a", digest="ab"))
    relate(task, ChildrenSpawned(children=(TaskId("task_3"),), batch_id="b"))
    relate(task, WaiterAdded(waiter=TWO, waiter_log=LogId("task_2")))
    assert task.waits.children == {TWO: False, "task_3": True}
    assert task.waits.spawned == {"a": (TWO, "ab")}
    assert task.waits.waiters == {TWO: "task_2"}


def test_a_task_that_ended_in_the_queue_is_known_while_others_wait_for_it() -> None:
    """After a crash between its end and the notification the next holder finds it here."""
    state = SessionState(LOG)
    for task_id in (ONE, TWO, THREE):
        state.apply(message(), task_id, None, 0)
    state.apply(TaskStarted(), ONE, None, 0)
    state.apply(WaiterAdded(waiter=TaskId("task_9"), waiter_log=LogId("task_9")), TWO, None, 0)
    for task_id in (TWO, THREE):
        state.apply(CancelRequested(), task_id, None, 0)
        state.apply(TaskEnded(status=TaskStatus.CANCELLED), task_id, None, 0)
    assert [(each.task_id, each.ended_as) for each in state.aside] == [(TWO, TaskStatus.CANCELLED)]
    assert state.current is not None
    assert state.current.task_id == ONE
