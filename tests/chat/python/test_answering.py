"""Answers to questions: by the question, by its id, or for a whole reply."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.app.runtime import Runtime
from penstock.core.call import Effect
from penstock.core.errors import (
    AlreadyAnswered,
    InvalidAnswer,
    NotFound,
    QuestionClosed,
    RuntimeMisuse,
)
from penstock.core.reply import Reply
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import memory_runtime
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.tools import Act, echo

SEND = Act("send", echo, requires_approval=True, effect=Effect.WRITE)


@tool(effect="write")
async def choose(ctx: ToolContext) -> str:
    """Ask a person for a colour."""
    return str(await ctx.ask("Which colour?", options=["red", "green"]))


@tool(effect="write")
async def name(ctx: ToolContext) -> str:
    """Ask a person for a name."""
    return str(await ctx.ask("Which name?"))


def sending(*names: str) -> ScriptedModel:
    """Return a model that sends something to each, at once."""
    calls = call("send", to=names[0])
    for each in names[1:]:
        calls += call("send", to=each)
    return ScriptedModel([calls, say("Done.")])


async def test_a_reply_is_approved_as_a_whole() -> None:
    async with memory_runtime(model=sending("Ann", "Bob"), tools=[SEND]) as runtime:
        reply = await runtime.chat("Go")
        assert [question.input for question in reply.questions] == [{"to": "Ann"}, {"to": "Bob"}]
        done = await runtime.approve(reply)
    assert (done.output, [each.status for each in done.calls]) == ("Done.", ["success"] * 2)


async def test_a_reply_is_rejected_as_a_whole_with_a_reason() -> None:
    async with memory_runtime(model=sending("Ann"), tools=[SEND]) as runtime:
        done = await runtime.reject(await runtime.chat("Go"), "not today")
    (rejected,) = done.calls
    assert rejected.status == "failed"
    assert rejected.error
    assert "not today" in rejected.error


async def test_an_approval_can_change_the_input() -> None:
    async with memory_runtime(model=sending("Ann"), tools=[SEND]) as runtime:
        reply = await runtime.chat("Go")
        await runtime.approve(reply.questions[0], input={"to": "Eve"}, note="she is in")
        done = await runtime.wait(reply)
    assert done.calls[0].output == {"to": "Eve"}


@pytest.mark.parametrize(("value", "status"), [(True, "success"), (False, "failed")])
async def test_true_and_false_answer_an_approval(*, value: bool, status: str) -> None:
    async with memory_runtime(model=sending("Ann"), tools=[SEND]) as runtime:
        reply = await runtime.chat("Go")
        await runtime.answer(reply.questions[0].id, value)
        assert (await runtime.wait(reply)).calls[0].status == status


@pytest.mark.parametrize(
    ("asks", "kind", "options", "value"),
    [("choose", "choice", ("red", "green"), "green"), ("name", "text", (), "Ann")],
)
async def test_a_value_answers_a_question(
    asks: str, kind: str, options: tuple[str, ...], value: str
) -> None:
    model = ScriptedModel([call(asks), say("Done.")])
    async with memory_runtime(model=model, tools=[choose, name]) as runtime:
        reply = await runtime.chat("Go")
        (question,) = reply.questions
        assert (question.kind, question.options) == (kind, options)
        assert await runtime.questions() == [question]
        assert await runtime.questions(session=reply.session) == [question]
        done = await runtime.answer(reply, value)
        assert await runtime.questions() == []
    assert done.calls[0].output == value


async def waiting(runtime: Runtime) -> Reply[str]:
    """Return a reply with an approval, and one with a choice after it."""
    return await runtime.chat("Go")


@pytest.mark.parametrize("value", ["maybe", 3, None, {"decision": "approve"}])
async def test_an_answer_that_does_not_fit_is_refused(value: Any) -> None:
    async with memory_runtime(model=sending("Ann"), tools=[SEND]) as runtime:
        reply = await waiting(runtime)
        with pytest.raises(InvalidAnswer):
            await runtime.answer(reply.questions[0], value)
        assert (await runtime.wait(reply)).questions == reply.questions


async def test_a_wrong_use_names_the_right_line() -> None:
    async with memory_runtime(model=sending("Ann", "Bob"), tools=[SEND]) as runtime:
        reply = await waiting(runtime)
        with pytest.raises(RuntimeMisuse, match="2 open questions: answer each"):
            await runtime.answer(reply, value=True)
        done = await runtime.approve(reply)
        with pytest.raises(RuntimeMisuse, match=r"no open approval: it is succeeded$"):
            await runtime.approve(done)
        asking = replace(done, questions=(replace(reply.questions[0], kind="choice"),))
        with pytest.raises(RuntimeMisuse, match=r"It asks choice: use `runtime.answer\("):
            await runtime.approve(asking)
        with pytest.raises((AlreadyAnswered, QuestionClosed)):
            await runtime.reject(reply.questions[0], "too late")
        nothing: Any = None
        with pytest.raises(RuntimeMisuse, match="wanted a reply, a question or its id, found None"):
            await runtime.approve(nothing)
        with pytest.raises(RuntimeMisuse, match=r"wait takes a reply, .*; found None"):
            await runtime.wait(nothing)
        for answering in (runtime.answer("q_no", 1), runtime.approve("q_no")):
            with pytest.raises(NotFound):
                await answering


async def test_waiting_for_a_reply_has_a_limit() -> None:
    async with memory_runtime(model=sending("Ann"), tools=[SEND]) as runtime:
        reply = await waiting(runtime)
        assert (await runtime.wait(reply, timeout=0)).questions == reply.questions
