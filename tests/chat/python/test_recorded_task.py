"""What the events of a task say: its calls as a tree, its messages, its errors."""

import pickle
from typing import Any

import pytest
from pydantic import BaseModel

from penstock.agents.agent import Agent
from penstock.core.call import Effect
from penstock.core.limits import Limits
from penstock.core.reply import (
    AssistantMessage,
    TaskCancelled,
    TaskFailed,
    TaskSuspended,
    ToolCall,
    UserMessage,
)
from penstock.models.scripted import (
    Hold,
    ScriptedModel,
    ScriptedReply,
    call,
    fail,
    finish,
    say,
    wait,
)
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.tools import Act, echo


@tool(effect="none", direct_call=True)
def inner(n: int) -> int:
    """Return a number, but not a negative one."""
    if n < 0:
        raise ValueError(n)
    return n


@tool(effect="write")
async def outer(ctx: ToolContext, n: int) -> int:
    """Call another tool twice."""
    first = await ctx.call("inner", {"n": n})
    await ctx.call("inner", {"n": -1})
    return int(first.output)


@tool(effect="write")
async def asking(ctx: ToolContext) -> str:
    """Call a tool, then ask."""
    await ctx.call("inner", {"n": 7})
    return str(await ctx.ask("Which?"))


def outline(call: ToolCall) -> tuple[object, ...]:
    return call.tool, call.input, call.status, [outline(each) for each in call.calls]


async def test_calls_are_a_tree_in_the_order_of_the_model() -> None:
    model = ScriptedModel([call("outer", n=1) + call("inner", n=2), call("outer", n=3), say("Ok")])
    async with memory_runtime(model=model, tools=[inner, outer]) as runtime:
        reply = await runtime.chat("Go")
    inside: list[object] = [("inner", {}, "success", []), ("inner", {}, "failed", [])]
    assert [outline(each) for each in reply.calls] == [
        ("outer", {"n": 1}, "success", inside),
        ("inner", {"n": 2}, "success", []),
        ("outer", {"n": 3}, "success", inside),
    ]
    assert reply.calls[0].seconds >= 0
    assert reply.calls[0].calls[1].error


async def test_a_call_that_waits_has_the_calls_inside_it() -> None:
    model = ScriptedModel([call("asking"), say("Ok")])
    async with memory_runtime(model=model, tools=[inner, asking]) as runtime:
        reply = await runtime.chat("Go")
        inside: list[object] = [("inner", {}, "success", [])]
        assert [outline(each) for each in reply.calls] == [("asking", {}, "suspended", inside)]
        done = await runtime.answer(reply, "this one")
    assert [(each.tool, each.output) for each in done.calls] == [("asking", "this one")]


async def test_messages_are_the_message_and_its_answer() -> None:
    model = ScriptedModel([call("inner", n=2), say("Two.")])
    async with memory_runtime(model=model, tools=[inner]) as runtime:
        reply = await runtime.chat("How many?")
    asked, answer = reply.messages
    assert isinstance(asked, UserMessage)
    assert isinstance(answer, AssistantMessage)
    assert (asked.text, answer.text, answer.calls) == ("How many?", "Two.", reply.calls)
    assert answer.id == reply.message_id
    assert "RecordedTask(6 events)" in repr(reply)


async def test_the_output_of_a_failed_task_raises_with_its_reply() -> None:
    async with memory_runtime(model=ScriptedModel([fail(401)])) as runtime:
        reply = await runtime.chat("Go")
    with pytest.raises(TaskFailed, match="MODEL_REFUSED") as raised:
        assert reply.output
    assert raised.value.reply is reply
    assert reply.error
    with pytest.raises(TaskFailed):
        reply.raise_for_status()


async def test_the_output_of_a_waiting_task_raises_with_its_questions() -> None:
    send = Act("send", echo, requires_approval=True, effect=Effect.WRITE)
    async with memory_runtime(
        model=ScriptedModel([call("send", to="Ann")]), tools=[send]
    ) as runtime:
        reply = await runtime.chat("Go")
    with pytest.raises(TaskSuspended) as raised:
        assert reply.output
    assert raised.value.questions == reply.questions
    (question,) = reply.questions
    assert (question.kind, question.tool, question.input) == ("approval", "send", {"to": "Ann"})


async def test_the_output_of_a_cancelled_task_raises() -> None:
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    hold = Hold()
    async with memory_runtime(model=ScriptedModel([wait(hold)]), place=place) as runtime:
        run = await runtime.start("Go")
        await hold.reached()
        await run.cancel()
        reply = await run.reply()
    with pytest.raises(TaskCancelled):
        assert reply.output


class Ticket(BaseModel):
    """A fault."""

    title: str


class Refund(BaseModel):
    """A payment."""

    euros: int


def filed(title: str) -> Ticket:
    """File a ticket."""
    return Ticket(title=title)


@pytest.mark.parametrize(
    ("agent", "script"),
    [
        (Agent("clerk"), [say("Done.")]),
        (Agent("clerk", output=Ticket), [finish({"title": "fire"})]),
        (Agent("clerk", output=Ticket | Refund), [call("final_answer_Refund", euros=1)]),
        (Agent("clerk", output=dict[str, int]), [finish({"a": 1})]),
        (Agent("clerk", output=filed), [finish({"title": "fire"})]),
        (
            Agent[Any, Any]("clerk", output=str, handoffs=[Agent("desk", output=Ticket)]),
            [call("transfer_to_desk"), finish({"title": "fire"})],
        ),
    ],
)
async def test_a_reply_survives_pickling_with_its_output(
    agent: Agent[Any, Any], script: list[ScriptedReply]
) -> None:
    async with memory_runtime(model=ScriptedModel(script), agents=[agent]) as runtime:
        reply = await runtime.chat("Hello", agent=agent)
        copy = pickle.loads(pickle.dumps(reply))  # noqa: S301  our own bytes
        assert copy == reply
        assert copy.output == reply.output
        assert (copy.calls, copy.messages) == (reply.calls, reply.messages)
        assert (await runtime.wait(copy)).output == reply.output


async def test_a_reply_of_another_task_is_another_value() -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi."), say("Hi.")])) as runtime:
        first, second = await runtime.chat("Hello"), await runtime.chat("Hello")
    assert first.recorded == first.recorded
    assert first.recorded != second.recorded
