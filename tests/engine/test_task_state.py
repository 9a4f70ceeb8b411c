"""One task, folded: its costs, its open waits, the answers to its questions."""

from typing import Any

import pytest

from penstock.core.events.events import (
    CancelRequested,
    Event,
    ParkedCall,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.flow_events import FlowNotified, RunEnded
from penstock.core.ids import TaskId
from penstock.core.messages import Usage
from penstock.engine.task_state import TaskState
from tests.kit.folded_sessions import ASKED, folded
from tests.kit.session_events import ONE, answered, message, outcome, path_of, reply, withdrawn


def test_spending_adds_up_and_has_no_price_once_one_is_missing() -> None:
    first = Usage(input_tokens=5, output_tokens=2, cost_usd=0.5)
    state = folded(message(), TaskStarted(), reply(1, "a", usage=first), outcome("a"))
    task = state.current
    assert task
    assert (task.spent.input_tokens, task.spent.output_tokens, task.spent.cost_usd) == (5, 2, 0.5)
    assert (task.spent.model_calls, task.spent.tool_calls) == (1, 1)
    state.apply(reply(2, text="x", usage=Usage(input_tokens=1)), ONE, None, 9)
    assert (task.spent.input_tokens, task.spent.cost_usd) == (6, None)


def test_a_call_that_did_not_run_is_not_counted() -> None:
    state = folded(message(), TaskStarted(), reply(1, "a"), outcome("a", ran=False))
    assert state.current
    assert state.current.spent.tool_calls == 0


@pytest.mark.parametrize("order", [["person", "nobody"], ["nobody", "person"]])
def test_an_answer_before_the_expiry_wins(order: list[str]) -> None:
    said = {"person": answered("a", decision="approve"), "nobody": answered("a", None)}
    task = folded(*ASKED, *[said[each] for each in order]).current
    assert task
    assert task.waits.answers[path_of("a")].answer == {"decision": "approve"}


@pytest.mark.parametrize("events", [[withdrawn("a")], [answered("a"), withdrawn("a")]])
def test_a_withdrawn_question_counts_only_if_a_person_answered_first(events: list[Any]) -> None:
    task = folded(*ASKED, *events).current
    assert task
    assert (
        (path_of("a") in task.waits.asked)
        == (path_of("a") in task.waits.answers)
        == (len(events) > 1)
    )


IN_RUNS = TaskSuspended(questions=(), runs=(TaskId("task_8"), TaskId("task_9")))
OVER = RunEnded(run_id=TaskId("task_9"))
ALIEN = RunEnded(run_id=TaskId("task_7"))


@pytest.mark.parametrize(
    ("events", "waits", "awaited"),
    [
        ([IN_RUNS], True, {"task_8", "task_9"}),
        ([IN_RUNS, OVER], False, {"task_8"}),
        ([OVER, IN_RUNS], False, {"task_8"}),
        ([IN_RUNS, ALIEN], True, {"task_8", "task_9"}),
        ([ALIEN, IN_RUNS], True, {"task_8", "task_9"}),
        ([IN_RUNS, OVER, OVER], False, {"task_8"}),
        ([IN_RUNS, TaskResumed(), IN_RUNS], True, {"task_8", "task_9"}),
        ([IN_RUNS, CancelRequested()], False, {"task_8", "task_9"}),
        ([CancelRequested(), IN_RUNS], False, {"task_8", "task_9"}),
    ],
)
def test_a_task_waits_while_none_of_its_runs_has_ended(
    events: list[Event], waits: bool, awaited: set[str]
) -> None:
    state = folded(message(), TaskStarted(), *events)
    assert state.current
    assert (state.current.is_suspended, set(state.current.waits.awaited)) == (waits, awaited)


def test_tasks_share_no_part() -> None:
    task, other = TaskState(ONE, None), TaskState(ONE, None)
    task.own_waits().parked[path_of("a")] = ParkedCall(path_of("a"), 5)
    task.own_records().notes[path_of("a"), "step"] = 1
    task.flow_events.append((None, FlowNotified(kind="flow_jump")))
    assert task != other
    assert other == TaskState(ONE, None)


def test_an_outcome_ends_only_the_wait_of_its_own_call() -> None:
    state = folded(message(), TaskStarted(), reply(1, "a", "b"))
    task = state.current
    assert task
    for name in "ab":
        task.own_waits().parked[path_of(name)] = ParkedCall(path_of(name), 5)
    state.apply(outcome("a"), ONE, path_of("a"), 9)
    assert list(task.waits.parked) == [path_of("b")]
