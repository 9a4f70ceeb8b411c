"""How tasks end that do not end by themselves."""

import pytest
from msgspec.structs import replace

from penstock.core.call import ToolCall
from penstock.core.events.events import CallRequested, MessageReceived, ReplyReceived, TaskStarted
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import CallId, MessageId
from penstock.core.messages import Usage
from penstock.core.task import TaskStatus
from penstock.engine.task_ends import cancelled, crashed, failed, internal_error, usage_of
from penstock.engine.task_state import Brief, TaskState
from penstock.store.logs.log import Lease
from tests.kit.events import ANN, LOG, ONE

LEASE = Lease(log_id=LOG, epoch=12, head=3, crashed=True, recoveries=11, alone=5)
MESSAGE = MessageReceived(message_id=MessageId("msg_1"), content="Go")
ASKED = ReplyReceived(
    iteration=1,
    base=0,
    text="",
    message_id=MessageId("msg_2"),
    calls=(ToolCall(CallId("tc_1"), "look", {}), ToolCall(CallId("tc_2"), "dig", {})),
)
PLACES: dict[str, tuple[Brief, str]] = {
    "a message": (
        MESSAGE,
        "while its model was asked or in a call that it had just asked for",
    ),
    "a call": (CallRequested(tool_id="dig", input={}, profile_id=ANN), "in the call of 'dig'"),
    "a flow": (FlowRequested(command="trip", profile_id=ANN), "in the flow 'trip'"),
}


@pytest.mark.parametrize(("brief", "place"), PLACES.values(), ids=list(PLACES))
def test_a_task_that_killed_its_process_says_how_often_where_and_what_to_do(
    brief: Brief, place: str
) -> None:
    error = crashed(TaskState(ONE, brief), LEASE)
    assert (error.code, error.retryable, error.continuable) == ("INTERNAL_ERROR", False, False)
    assert error.message == (
        f"the process died 11 times in a row at the same place of this task, {place}, 5 times with "
        "no other suspect at work. Look for the reason in the output of the process, then send the "
        "message again"
    )


def test_the_calls_without_an_outcome_are_named() -> None:
    task = TaskState(ONE, MESSAGE, started=TaskStarted())
    task.add_reply(ASKED, None, ())
    assert ", in 'dig' or 'look', " in crashed(task, LEASE).message


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.CANCELLED])
def test_an_end_tells_what_was_spent(status: TaskStatus) -> None:
    task = TaskState(ONE, MESSAGE)
    task.add_reply(replace(ASKED, usage=Usage(input_tokens=7, output_tokens=2)), None, ())
    ended = cancelled(task) if status is TaskStatus.CANCELLED else failed(task, internal_error("x"))
    assert (ended.status, ended.iterations, ended.usage) == (status, 1, usage_of(task))
    assert (ended.usage.input_tokens, ended.usage.model_calls) == (7, 1)
    assert ended.error
    assert ended.error.code == ("CANCELLED" if status is TaskStatus.CANCELLED else "INTERNAL_ERROR")
