"""The fold: the state of a log, in any order in which its holder learned of the events."""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from penstock.core.call import ToolCall
from penstock.core.events.events import (
    CallRequested,
    CancelRequested,
    Event,
    PromptResolved,
    QuestionAsked,
    ReplyRestarted,
    SkillsSelected,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.flow_events import RunEnded
from penstock.core.events.history_events import Erased
from penstock.core.ids import CallId, QuestionId, TaskId
from penstock.core.messages import AssistantMessage, ToolMessage, UserMessage
from penstock.core.task import TaskStatus
from penstock.engine.session_state import SessionState
from tests.kit.folded_sessions import ASKED, folded
from tests.kit.session_events import (
    ANN,
    LOG,
    ONE,
    TWO,
    answered,
    ended,
    message,
    outcome,
    path_of,
    question,
    reply,
)


def test_messages_are_those_that_a_model_reads() -> None:
    state = folded(
        message(),
        TaskStarted(),
        reply(1, "a", "b"),
        outcome("b"),
        outcome("a"),
        reply(2, text="So."),
    )
    assert state.messages.entries == [
        UserMessage("Hi"),
        AssistantMessage(
            "", (ToolCall(CallId("a"), "tool", {}), ToolCall(CallId("b"), "tool", {}))
        ),
        ToolMessage(CallId("a"), "tool", "a done"),
        ToolMessage(CallId("b"), "tool", "b done"),
        AssistantMessage("So."),
    ]


def test_no_result_is_shown_before_all_of_its_reply_are_there() -> None:
    state = folded(message(), TaskStarted(), reply(1, "a", "b"), outcome("b"))
    assert len(state.messages.entries) == 2
    assert state.current
    assert state.current.main.reply


@pytest.mark.parametrize(
    ("events", "contents"),
    [
        (
            [message(), TaskStarted(), reply(1), reply(1, text="Sorry", closing=True)],
            ["Hi", "Sorry"],
        ),
        ([message(), TaskStarted(), reply(1, text="A"), ended()], ["Hi", "A"]),
        ([message(), TaskStarted(), ReplyRestarted(iteration=1), reply(1, text="B")], ["Hi", "B"]),
        ([message(), TaskStarted(), ended(TaskStatus.CANCELLED), (message("2"), TWO)], ["Hi"]),
        ([Erased(), TaskStarted(), reply(1, text="A"), ended()], ["A"]),
        ([message(), TaskStarted(), Erased(), Erased(), ended()], ["Hi"]),
        ([(message("old"), TWO), message(), TaskStarted(), reply(1, text="A")], ["Hi", "A"]),
    ],
)
def test_a_log_is_folded_into_the_messages_of_the_model(
    events: list[Any], contents: list[str]
) -> None:
    assert [each.content for each in folded(*events).messages.entries] == contents


@pytest.mark.parametrize(("superseded", "left"), [(ONE, []), (TWO, ["1", "A"])])
def test_a_superseded_task_leaves_with_all_after_it(superseded: TaskId, left: list[str]) -> None:
    three = TaskId("task_3")
    state = folded(
        message("1"), TaskStarted(), reply(1, text="A"), ended(),
        (message("2"), TWO), (TaskStarted(), TWO), (reply(1, text="B"), TWO), (ended(), TWO),
        (message("3", supersedes=superseded), three), (TaskStarted(), three),
    )  # fmt: skip
    assert [each.content for each in state.messages.entries] == [*left, "3"]
    again = folded(
        *[(message(each), TaskId(each)) for each in left[:1]],
        *[(TaskStarted(), TaskId(each)) for each in left[:1]],
        *[(reply(1, text="A"), TaskId(each)) for each in left[:1]],
        *[(ended(), TaskId(each)) for each in left[:1]],
        (message("3"), three),
        (TaskStarted(), three),
    )
    assert state.messages.tokens == again.messages.tokens


def test_a_superseded_task_that_is_not_there_changes_nothing() -> None:
    state = folded(message("1", supersedes=TaskId("task_9")), TaskStarted())
    assert [each.content for each in state.messages.entries] == ["1"]


# ---- the order of tasks ------------------------------------------------------------------------

PARKED = TaskSuspended(questions=(QuestionId("q_a"), QuestionId("q_b")))


@pytest.mark.parametrize(
    ("events", "turn"),
    [
        ([], None),
        ([message()], ONE),
        ([message(), (message(), TWO)], ONE),
        ([message(), TaskStarted(), (message(), TWO)], ONE),
        ([message(), TaskStarted(), ended(), (message(), TWO)], TWO),
        ([*ASKED, PARKED], None),
        ([*ASKED, PARKED, (message(), TWO)], None),
        ([*ASKED, PARKED, (message(), TWO), (CancelRequested(), TWO)], TWO),
        ([*ASKED, PARKED, answered("b")], ONE),
        ([*ASKED, answered("b"), PARKED], ONE),
        ([*ASKED, PARKED, answered("b"), TaskSuspended(questions=(QuestionId("q_a"),))], None),
        ([*ASKED, PARKED, CancelRequested()], ONE),
        ([*ASKED, CancelRequested(), PARKED], ONE),
        ([*ASKED, PARKED, answered("b"), TaskResumed()], ONE),
        ([*ASKED, PARKED, CancelRequested(), ended(TaskStatus.CANCELLED), (message(), TWO)], TWO),
        ([message(), CancelRequested(), TaskStarted()], ONE),
    ],
)
def test_next_task_follows_the_order_of_events(events: list[Any], turn: TaskId | None) -> None:
    """The order in which a question is answered and its task is parked does not matter."""
    task = folded(*events).next_task()
    assert (task.task_id if task else None) == turn


def test_a_task_that_is_cancelled_in_the_queue_leaves_the_parked_one_where_it_is() -> None:
    state = folded(
        *ASKED, PARKED, (message(), TWO), (CancelRequested(), TWO), (TaskStarted(), TWO),
        (ended(TaskStatus.CANCELLED), TWO),
    )  # fmt: skip
    assert state.current
    assert (state.current.task_id, state.queue) == (ONE, {})
    assert [each.content for each in state.messages.entries[:1]] == ["Hi"]


def test_time_at_work_does_not_count_waiting_and_being_dead() -> None:
    state = SessionState(LOG)
    times: list[tuple[int, Event]] = [
        (0, message()),
        (1_000, TaskStarted()),
        (3_000, QuestionAsked(question=question("a"))),
        (4_000, TaskSuspended(questions=(QuestionId("q_a"),))),
        (90_000, answered("a")),
        (91_000, TaskResumed()),
        (93_000, TaskResumed(crashed=True)),
        (95_000, ended()),
    ]
    for at, event in times:
        state.apply(event, ONE, None, at)
    assert state.current
    assert state.current.spent.active_ms == 3_000 + 2_000


def test_a_selection_grows_belongs_to_the_session_and_a_round_keeps_the_one_it_had() -> None:
    state = folded(
        message(),
        TaskStarted(),
        SkillsSelected(skill_ids=("a",)),
        reply(1, "x"),
        SkillsSelected(skill_ids=("b", "a")),
        outcome("x"),
        ended(),
        (message("2"), TWO),
        (SkillsSelected(skill_ids=("c",)), TWO),
    )
    assert state.selected == ("a", "b", "c")
    assert state.current
    assert state.current.main.rounds[0].selected == ("a",)


def test_the_text_of_a_prompt_script_belongs_to_its_task() -> None:
    state = folded(message(), TaskStarted(), (PromptResolved(text="late"), TWO))
    assert state.current
    assert state.current.prompt_prefix is None
    state = folded(message(), TaskStarted(), PromptResolved(text=""))
    assert state.current
    assert state.current.prompt_prefix == ""


def test_a_direct_call_has_no_messages() -> None:
    asked = CallRequested(tool_id="tool", input={}, profile_id=ANN)
    state = folded(asked, TaskStarted(), ended())
    assert state.messages.entries == []


# ---- what it costs -----------------------------------------------------------------------------


def lines_run(work: Callable[[], None]) -> int:
    """Count the lines of Python that some work takes: no clock, no noise.

    What the collector finds would run its own lines among them, so it waits.
    """
    count = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    gc.collect()
    gc.disable()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


@pytest.mark.usefixtures("new_garbage")
def test_an_event_costs_the_same_at_ten_and_at_ten_thousand() -> None:
    state = folded(message(), TaskStarted())

    def turn(number: int) -> None:
        state.apply(reply(number, f"c{number}"), ONE, None, number)
        state.apply(outcome(f"c{number}"), ONE, path_of(str(number)), number)

    costs = {}
    for number in range(1, 5_001):
        if number in {5, 5_000}:
            costs[number] = lines_run(lambda number=number: turn(number))  # type: ignore[misc]
        else:
            turn(number)
    assert costs[5] == costs[5_000]
    assert len(state.messages.entries) == 10_001


def test_the_end_of_a_run_of_an_ended_task_changes_nothing() -> None:
    state = folded(message(), TaskStarted(), ended())
    state.apply(RunEnded(run_id=TaskId("task_9")), ONE, None, 0)
    assert state.is_idle


FIRST: list[Event] = [message("1"), TaskStarted(), reply(1, text="A"), ended()]


@pytest.mark.parametrize(
    ("events", "contents"),
    [
        ([message("2"), TaskStarted()], ["1", "A", "2"]),
        ([message("2"), TaskStarted(is_fresh=True)], ["2"]),
        ([message("2", supersedes=ONE), TaskStarted(is_fresh=True)], ["2"]),
    ],
)
def test_a_fresh_start_is_read_without_earlier_messages(
    events: list[Event], contents: list[str]
) -> None:
    state = folded(
        *FIRST,
        *[(each, TWO) for each in events],
    )
    assert [each.content for each in state.messages.entries] == contents


def test_messages_before_a_fresh_start_return_if_one_is_answered_again() -> None:
    three = TaskId("task_3")
    state = folded(
        *FIRST,
        *[(each, TWO) for each in (message("2"), TaskStarted(is_fresh=True), ended())],
        *[(each, three) for each in (message("3", supersedes=ONE), TaskStarted())],
    )
    assert [each.content for each in state.messages.entries] == ["3"]
    assert state.past == []


def test_the_end_of_a_task_without_a_command_adds_no_message() -> None:
    over = TaskEnded(status=TaskStatus.SUCCEEDED, content="Done.")
    state = folded(message("1"), TaskStarted(), reply(1, text="A"), over)
    assert [each.content for each in state.messages.entries] == ["1", "A"]
