"""One task, folded: its costs, its open waits, the answers to its questions."""

from typing import Any

import pytest

from penstock.core.call import CallPath, frame_above
from penstock.core.envelope import Envelope
from penstock.core.events.events import (
    CallSettled,
    CancelRequested,
    Event,
    ParkedCall,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.flow_events import AgentStarted, FlowNotified, RunEnded
from penstock.core.ids import TaskId
from penstock.core.messages import Usage
from penstock.engine.task_state import AS_TOOL, TaskState
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


def nested(tool_id: str) -> CallSettled:
    """Return the outcome of a call that no model made."""
    return CallSettled(tool_id=tool_id, envelope=Envelope.success(1))


def test_each_agent_that_works_for_a_call_counts_itself_and_what_is_below_it() -> None:
    """The call of an agent is a call of its caller; a subagent has no budget of its own."""
    state = folded(message(), TaskStarted(), reply(1, "a"))
    task = state.current
    assert task
    outer = path_of("a")
    inner, subagent = CallPath(f"{outer}/1/b#1"), CallPath(f"{outer}/2/c#1")
    for frame, charter in ((outer, {AS_TOOL: True}), (inner, {AS_TOOL: True}), (subagent, {})):
        task.spent.active_ms += 100
        state.apply(AgentStarted(agent="x", message="m", system="", charter=charter), ONE, frame, 9)
        used = Usage(input_tokens=10, output_tokens=1)
        state.apply(reply(1, text="x", usage=used), ONE, frame, 9)
        below = CallPath(f"{frame}/1/look#1")
        state.apply(nested("look"), ONE, below, 9)
        state.apply(nested("nested"), ONE, CallPath(f"{below}/nested#1"), 9)
    for frame in (subagent, inner, outer):
        state.apply(nested("x"), ONE, frame, 9)
    found = {
        frame: (each.model_calls, each.input_tokens, each.tool_calls, each.since_ms)
        for frame, each in (task.parts or {}).items()
    }
    assert found == {outer: (3, 30, 8, 107), inner: (1, 10, 2, 207)}
    assert task.spent.tool_calls == 9
    assert frame_above(inner) == outer


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
