"""Waiting for tasks, in this process and for those of another."""

import asyncio

import pytest

from penstock.chat.requests import NewMessage
from penstock.chat.task_waiter import TaskWaiter, awaited_runs
from penstock.core.errors import NotFound
from penstock.core.events.events import Event, QuestionAnswered, TaskStarted, TaskSuspended
from penstock.core.events.flow_events import RunEnded
from penstock.core.ids import QuestionId, TaskId, new_id
from penstock.core.limits import World
from penstock.core.task import QuestionStatus, TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, say, wait
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.questions import mail
from tests.kit.tools import Act, together
from tests.kit.waiting_chat import RUNTIME, parked, place, tight
from tests.kit.waiting_chat import model as parked_model


async def test_a_late_caller_gets_the_reply_too() -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi")])) as runtime:
        reply = await ask(runtime, "Hello")
        again = await runtime.requests.wait(reply.task_id)
    assert again == reply


async def test_a_timeout_can_come_first() -> None:
    hold = Hold()
    async with memory_runtime(model=ScriptedModel([wait(hold) + say("Hi")])) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hello"))
        assert await runtime.requests.wait(sent.task_id, seconds=0.01) is None
        hold.release()
        reply = await runtime.requests.wait(sent.task_id)
    assert reply
    assert reply.status is TaskStatus.SUCCEEDED


async def test_an_unknown_task_is_not_awaited() -> None:
    async with memory_runtime() as runtime:
        with pytest.raises(NotFound, match="there is no task 'task_x'"):
            await runtime.requests.wait(TaskId("task_x"))


async def test_a_call_with_more_open_questions_than_a_page_holds_returns() -> None:
    tools = frozenset({"mail"})
    outer = Act("outer", together(*["mail"] * 250), direct_call=True, script_tools=tools)
    async with memory_runtime(tools=[mail(), outer]) as runtime:
        envelope = await runtime.call("outer", {})
    assert envelope.error
    assert envelope.error.details
    assert len(envelope.error.details["question_ids"]) == 250


async def test_polling_finds_a_task_that_another_process_ended() -> None:
    """The bus of this process does not publish the end; the log has it."""
    place = MemoryStorage()
    model = ScriptedModel([say("Hi")])
    async with memory_runtime(model=model, place=place) as other, memory_runtime() as here:
        sent = await other.requests.send(NewMessage(content="Hello"))
        world = World(place.clock, place.limits, new_id)
        silent = TaskWaiter(
            place.log, place.log, here.parts.engine.bus, world, is_blocked=lambda log_id: False
        )
        reply = await silent.wait(sent.task_id, None)
    assert reply
    assert reply.content == "Hi"


@pytest.mark.parametrize("waits_before", [True, False])
async def test_a_second_question_of_an_awaited_run_is_reported_at_once(
    *, waits_before: bool
) -> None:
    """The question is in the log of the run, not in that of the task, and nothing polls."""
    limits = tight(poll_seconds=1000, sweep_seconds=1000)
    async with (
        asyncio.timeout(10),
        memory_runtime(model=parked_model(), place=place(limits=limits), **RUNTIME) as runtime,
    ):
        sent, reply = await parked(runtime, "twice")
        (first,) = reply.questions
        answering = runtime.requests.answer(first.question.question_id, {"value": "Yes"})
        if waits_before:
            _, again = await asyncio.gather(answering, runtime.requests.wait(sent.task_id))
        else:
            await answering
            again = await runtime.requests.wait(sent.task_id)
        while again is not None and again.questions == reply.questions:
            again = await runtime.requests.wait(sent.task_id)
    assert again is not None
    assert [each.question.text for each in again.questions] == ["Really?"]


RUN, OTHER = TaskId("task_8"), TaskId("task_9")
PARKED = TaskSuspended(questions=(QuestionId("q_a"),), runs=(RUN, OTHER))
ANSWERED = QuestionAnswered(question_id=QuestionId("q_a"), status=QuestionStatus.ANSWERED)


@pytest.mark.parametrize(
    ("events", "runs"),
    [
        ([], ()),
        ([TaskStarted()], ()),
        ([TaskStarted(), PARKED], (RUN, OTHER)),
        ([PARKED, RunEnded(run_id=RUN)], (OTHER,)),
        ([RunEnded(run_id=RUN), PARKED], (OTHER,)),
        ([PARKED, ANSWERED], ()),
        ([PARKED, ANSWERED, PARKED], (RUN, OTHER)),
    ],
)
def test_the_awaited_runs_of_a_task_are_those_that_have_not_ended(
    events: list[Event], runs: tuple[TaskId, ...]
) -> None:
    assert awaited_runs(events) == runs
