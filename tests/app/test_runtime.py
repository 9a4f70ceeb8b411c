"""The runtime of an embedding program: chat, call, answer, cancel, follow."""

from contextlib import aclosing

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage, SentMessage
from penstock.core.call import Effect
from penstock.core.envelope import SUSPENDED, Status
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events.codec import kind_of
from penstock.core.events.events import Record
from penstock.core.ids import LogId, QuestionId
from penstock.models.scripted import ScriptedModel, call, fail, say
from penstock.testing.runtime import memory_runtime
from penstock.tools.python.function import tool
from tests.kit.project import ProjectFolder
from tests.kit.tools import Act, echo


async def test_a_direct_call_returns_the_envelope_of_its_tool() -> None:
    tool = Act("echo", echo, direct_call=True)
    async with memory_runtime(tools=[tool]) as runtime:
        envelope = await runtime.call("echo", {"a": 1})
    assert (envelope.status, envelope.output) == (Status.SUCCESS, {"a": 1})


@pytest.mark.parametrize(
    ("tool_id", "code"), [("ecko", "TOOL_NOT_FOUND"), ("hidden", "TOOL_NOT_FOUND")]
)
async def test_a_direct_call_of_an_invisible_tool_fails(tool_id: str, code: str) -> None:
    tools = [Act("echo", echo, direct_call=True), Act("hidden", echo)]
    async with memory_runtime(tools=tools) as runtime:
        error = (await runtime.call(tool_id, {})).error
    assert error
    assert error.code == code


async def test_a_suspended_direct_call_names_its_open_question() -> None:
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


async def test_unknown_agents_and_models_are_refused_before_anything_is_written() -> None:
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


@tool
def private(n: int) -> int:
    """Return a number."""
    return n


@pytest.mark.parametrize(
    ("tool_id", "expected"),
    [
        ("private", "give it @tool(direct_call=True)"),
        (
            "act",
            "it is built in; `penstock tools grants act` shows who may call it",
        ),
    ],
)
async def test_a_refused_direct_call_explains_how_to_allow_it(tool_id: str, expected: str) -> None:
    async with memory_runtime(tools=[private, Act("act", echo)]) as runtime:
        error = (await runtime.call(tool_id, {})).error
    assert error
    assert (error.code, error.message) == (
        "TOOL_NOT_FOUND",
        f"the tool {tool_id!r} does not allow direct calls: {expected}",
    )


BROKEN = "from penstock import tool\n\n@tool(direct_call=True)\ndef price(x): return x\n"


async def test_a_direct_call_of_a_broken_tool_names_its_error(project: ProjectFolder) -> None:
    project.write("tools/shop.py", BROKEN)
    project.tool("script", "export const run = () => 5;", direct_call="false")
    async with project.opened() as runtime:
        broken = (await runtime.call("price", {})).error
        script = (await runtime.call("script", {})).error
    assert broken
    assert broken.message.startswith("The tool 'price' could not be loaded: tools/shop.py:4: ")
    assert script
    assert "add `direct_call: true` to its manifest" in script.message


async def streamed(runtime: Runtime, sent: SentMessage) -> str:
    """Return what a stream yields."""
    return "".join([text async for text in runtime.stream(sent)])


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_late_stream_has_the_whole_answer(*, is_late: bool) -> None:
    """An answer that was complete before the stream began comes from the log."""
    model = ScriptedModel([say("I look. ") + call("act"), say("It is fine.")])
    async with memory_runtime(model=model, tools=[Act("act", echo)]) as runtime:
        sent = await runtime.send(NewMessage(content="Go"))
        if is_late:
            await runtime.wait(sent.task_id)
        assert await streamed(runtime, sent) == "I look. It is fine."
        assert await streamed(runtime, sent) == "I look. It is fine."


async def test_a_stream_ends_at_a_question_and_a_new_one_continues_after_it() -> None:
    send = Act("send", echo, requires_approval=True, effect=Effect.WRITE)
    twice = [say(f"{n}. ") + call("send", to=n) for n in ("I", "II")]
    model = ScriptedModel([*twice, say("Sent.")])
    async with memory_runtime(model=model, tools=[send]) as runtime:
        sent = await runtime.send(NewMessage(content="Go"))
        for expected in ("I. ", "I. II. "):
            assert await streamed(runtime, sent) == expected
            assert await streamed(runtime, sent) == expected
            reply = await runtime.wait(sent.task_id)
            assert reply
            await runtime.answer(reply.questions[0].question.question_id, {"decision": "approve"})
        assert await streamed(runtime, sent) == "I. II. Sent."
        assert await streamed(runtime, sent) == "I. II. Sent."


async def test_a_stream_of_a_command_has_its_answer() -> None:
    async with memory_runtime(tools=[Act("echo", echo, direct_call=True)]) as runtime:
        sent = await runtime.send(NewMessage(content="/call echo a=1"))
        assert "a" in await streamed(runtime, sent)


async def test_a_stream_of_a_failing_task_ends() -> None:
    model = ScriptedModel([fail(401)])
    async with memory_runtime(model=model) as runtime:
        sent = await runtime.send(NewMessage(content="Go"))
        assert await streamed(runtime, sent) == ""
