"""What an embedding program holds: chat, call, answer, cancel, follow."""

from contextlib import aclosing

import pytest

from penstock.app.runtime import SUSPENDED
from penstock.chat.message import NewMessage
from penstock.core.call import Effect
from penstock.core.codec import kind_of
from penstock.core.envelope import Status
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events import Record
from penstock.core.ids import LogId, QuestionId
from penstock.models.scripted import ScriptedModel, say
from penstock.testing.runtime import memory_runtime
from tests.kit.tools import Act, echo


async def test_a_direct_call_gives_the_envelope_of_its_tool() -> None:
    tool = Act("echo", echo, direct_call=True)
    async with memory_runtime(tools=[tool]) as runtime:
        envelope = await runtime.call("echo", {"a": 1})
    assert (envelope.status, envelope.output) == (Status.SUCCESS, {"a": 1})


@pytest.mark.parametrize(
    ("tool_id", "code"), [("ecko", "TOOL_NOT_FOUND"), ("hidden", "TOOL_NOT_FOUND")]
)
async def test_a_direct_call_of_what_cannot_be_seen_fails(tool_id: str, code: str) -> None:
    tools = [Act("echo", echo, direct_call=True), Act("hidden", echo)]
    async with memory_runtime(tools=tools) as runtime:
        error = (await runtime.call(tool_id, {})).error
    assert error
    assert error.code == code


async def test_a_direct_call_that_needs_a_person_says_which_question_is_open() -> None:
    tool = Act("send", echo, direct_call=True, requires_approval=True, effect=Effect.WRITE)
    async with memory_runtime(tools=[tool]) as runtime:
        envelope = await runtime.call("send", {"to": "ann"})
        assert envelope.error
        assert (envelope.status, envelope.error.code) == (Status.SUSPENDED, SUSPENDED)
        details = envelope.error.details or {}
        assert details.keys() == {"question_ids", "task_id"}
        (question_id,) = details["question_ids"]
        await runtime.answer(QuestionId(question_id), {"decision": "approve"})
        reply = await runtime.wait(details["task_id"])
    assert reply
    assert reply.envelope
    assert reply.envelope.output == {"to": "ann"}


async def test_what_is_not_there_is_named_before_anything_is_written() -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi")])) as runtime:
        with pytest.raises(NotFound, match="Did you mean 'assistant'"):
            await runtime.chat("Hi", agent="assistent")
        with pytest.raises(ConfigError, match="there is no model 'gpt'"):
            await runtime.send(NewMessage(content="Hi", model="gpt"))


async def test_a_log_is_followed_from_its_beginning() -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi")])) as runtime:
        reply = await runtime.chat("Hello")
        kinds = []
        async with aclosing(runtime.follow(LogId(reply.session_id))) as items:
            async for item in items:
                assert isinstance(item, Record)
                kinds.append(kind_of(item.event))
                if kinds[-1] == "task_ended":
                    break
    assert kinds == [
        "session_opened",
        "message_received",
        "task_started",
        "reply_received",
        "task_ended",
    ]
