"""Events of subagents, and suspensions that need no person."""

import pytest

from penstock.core.call import CallPath
from penstock.core.envelope import Envelope
from penstock.core.events.child_events import Join
from penstock.core.events.events import (
    CallSettled,
    Event,
    ReplyReceived,
    ReplyRestarted,
    TaskResumed,
    TaskSuspended,
)
from penstock.core.events.flow_events import AgentReminded, AgentStarted
from penstock.core.events.roles import SubagentFilter, waits_for_tasks
from penstock.core.ids import CallId, MessageId, QuestionId, TaskId

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


FRAME = CallPath("t/1/subagent#a")
REPLY = ReplyReceived(iteration=1, base=1, text="x", message_id=MessageId("m"))
SETTLED = CallSettled(tool_id="x", envelope=Envelope.success(1), call_id=CallId("tc"))


@pytest.mark.parametrize(
    ("event", "path", "is_aside"),
    [
        (REPLY, None, False),
        (REPLY, FRAME, True),
        (ReplyRestarted(iteration=1), None, False),
        (ReplyRestarted(iteration=1), FRAME, True),
        (AgentReminded(message="m"), FRAME, True),
        (SETTLED, FRAME, False),
        (SETTLED, "t/1/subagent#ab", False),
        (SETTLED, "t/1/other#a/inner#b", False),
        (SETTLED, f"{FRAME}/1/read#b", True),
        (SETTLED, f"{FRAME}/1/tool#b/inner#c", True),
        (SETTLED, None, False),
    ],
)
def test_replies_in_a_frame_and_calls_below_one_are_aside(
    event: Event, path: CallPath | None, is_aside: bool
) -> None:
    aside = SubagentFilter()
    assert aside.has(AgentStarted(agent="a", message="m", system="s"), FRAME)
    assert aside.has(event, path) is is_aside


def test_without_an_agent_every_call_is_the_chats() -> None:
    assert not SubagentFilter().has(SETTLED, CallPath(f"{FRAME}/1/read#b"))
