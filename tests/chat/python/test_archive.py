"""Conversations on disk: listed, read, imported, deleted."""

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.agents.agent import Agent
from penstock.chat.python.public_events import ToolReturned
from penstock.chat.requests import NewMessage
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError, InvalidRequest, NotFound
from penstock.core.limits import Limits
from penstock.core.reply import AssistantMessage, UserMessage
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.invocation import Invocation
from tests.kit.dying_log import DyingLog, live
from tests.kit.tools import Act, echo

FAST = {"synchronous": "NORMAL"}


def numbered() -> ScriptedModel:
    """Return a model that says how many messages it has read."""
    return ScriptedModel(lambda request: say(f"I read {len(request.messages)}."))


async def test_a_history_has_each_message_with_its_newest_answer() -> None:
    model = ScriptedModel([call("act", a=1), say("One."), say("Two."), say("Again two.")])
    async with memory_runtime(model=model, tools=[Act("act", echo)]) as runtime:
        first = await runtime.chat("First")
        second = await runtime.chat("Second", session=first.session)
        again = NewMessage(
            content="Second",
            session_id=first.session,
            supersedes=second.task_id,  # type: ignore[arg-type]
        )
        sent = await runtime.requests.send(again)
        await runtime.requests.wait(sent.task_id)
        messages = await runtime.history(first.session)
    assert [(type(each), each.text) for each in messages] == [
        (UserMessage, "First"),
        (AssistantMessage, "One."),
        (UserMessage, "Second"),
        (AssistantMessage, "Again two."),
    ]
    answer = messages[1]
    assert isinstance(answer, AssistantMessage)
    assert [each.output for each in answer.calls] == [{"a": 1}]


LONG: dict[str, Any] = {
    "for a model": {"rows": ["x" * 100] * 200},
    "a text": "long " * 4_000,
    "a number in a text": "1" * 20_000,
    "for the log": {"rows": ["x" * 100] * 20_000},
}


def giving(output: Any) -> Act:
    """Return a tool with this output."""

    async def give(input: Json, invocation: Invocation) -> Any:
        return output

    return Act("act", give)


@pytest.mark.parametrize("output", LONG.values(), ids=list(LONG))
async def test_an_output_that_is_too_long_for_a_reply_can_be_read(output: Any) -> None:
    place = MemoryStorage()
    model = ScriptedModel([call("act"), say("Done.")])
    async with memory_runtime(model=model, tools=[giving(output)], place=place) as runtime:
        run = await runtime.start("Go")
        returned = [each.call async for each in run if isinstance(each, ToolReturned)]
        reply = await run.reply()
    async with memory_runtime(place=place) as runtime:
        for done in (*reply.calls, *returned):
            assert (done.status, done.output) == ("success", None)
            assert done.stored
            assert done.stored.characters > 10_000
            assert await runtime.read_output(done) == output


async def test_an_output_in_a_reply_is_read_from_there_and_a_failed_call_has_none() -> None:
    model = ScriptedModel([call("act", a=1) + call("gone"), say("Done.")])
    async with memory_runtime(model=model, tools=[Act("act", echo)]) as runtime:
        done, failed = (await runtime.chat("Go")).calls
        assert (await runtime.read_output(done), done.stored) == ({"a": 1}, None)
        assert (await runtime.read_output(failed), failed.stored) == (None, None)


async def test_an_output_that_was_deleted_with_its_conversation_is_gone(tmp_path: Path) -> None:
    model = ScriptedModel([call("act"), say("Done.")])
    tools = [giving("long " * 4_000)]
    options: Any = {"settings": FAST, "tools": tools, "agents": [Agent("clerk", model=model)]}
    async with penstock.open(tmp_path, **options) as runtime:
        reply = await runtime.chat("Go", agent="clerk")
        assert await runtime.read_output(reply.calls[0]) == "long " * 4_000
        await runtime.delete(reply.session)
        with pytest.raises(NotFound):
            await runtime.read_output(reply.calls[0])


async def test_conversations_are_listed_and_deleted(tmp_path: Path) -> None:
    clerk = Agent("clerk", model=numbered())
    async with penstock.open(tmp_path, settings=FAST, agents=[clerk]) as runtime:
        kept = await runtime.chat("Hello there", agent=clerk)
        gone = await runtime.chat("Goodbye")
        listed = await runtime.sessions()
        assert {each.id for each in listed} == {kept.session, gone.session}
        await runtime.delete(gone.session)
        (left,) = await runtime.sessions(agent=clerk)
        assert await runtime.sessions(agent="assistant") == []
        with pytest.raises(NotFound):
            await runtime.history(gone.session)
        with pytest.raises(NotFound):
            await runtime.delete(gone.session)
    assert (left.id, left.agent, left.title, left.messages) == (
        kept.session,
        "clerk",
        "Hello there",
        2,
    )
    assert left.created_at <= left.updated_at


async def test_a_conversation_in_memory_cannot_be_deleted() -> None:
    async with memory_runtime() as runtime:
        reply = await runtime.chat("Hello")
        with pytest.raises(ConfigError, match="in memory"):
            await runtime.delete(reply.session)


OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 2 + 3?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "5"},
    {"role": "assistant", "content": "Five."},
    {"role": "user", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "6?"}]},
    {"role": "assistant", "content": "Six."},
]


@pytest.mark.parametrize("in_memory", [True, False])
async def test_an_imported_conversation_continues(tmp_path: Path, *, in_memory: bool) -> None:
    model = numbered()
    opening: Any = (
        memory_runtime(model=model)
        if in_memory
        else penstock.open(tmp_path, settings=FAST, model=model)
    )
    async with opening as runtime:
        session = await runtime.import_history(OPENAI)
        messages = await runtime.history(session)
        reply = await runtime.chat("And 7?", session=session)
        again = await runtime.import_history(messages, agent="assistant")
        assert [each.text for each in await runtime.history(again)] == [
            each.text for each in messages
        ]
    assert [each.text for each in messages] == ["What is 2 + 3?", "Five.", "And 6?", "Six."]
    assert messages[1].calls[0].output == "5"
    assert reply.output == "I read 7."


async def test_a_long_first_message_is_imported(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "x" * 100_000}, {"role": "assistant", "content": "y"}]
    async with penstock.open(tmp_path, settings=FAST, model=numbered()) as runtime:
        session = await runtime.import_history(turns)
        assert [len(each.text) for each in await runtime.history(session)] == [100_000, 1]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("writes", [1, 2, 3, 4])
async def test_no_agent_answers_the_messages_of_an_import_that_was_killed(
    writes: int, *, before: bool
) -> None:
    clock, asked = FakeClock(), list[str]()
    log = DyingLog(clock, writes=writes, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))

    def answer(request: ModelRequest) -> ScriptedReply:
        asked.append(request.messages[-1].content)
        return say("Again.")

    turns = [
        {"role": "user", "content": "Refund 7"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Refund 8"},
        {"role": "assistant", "content": "Done."},
    ]
    async with memory_runtime(model=ScriptedModel(answer), place=place) as runtime:
        importing: Any = runtime.import_history(turns)
        await live(runtime, log, importing)
    log.revive()
    clock.advance(place.limits.lease_seconds + 1)
    async with memory_runtime(model=ScriptedModel(answer), place=place) as runtime:
        begun = [each.id for each in await runtime.sessions()]
        reply = await runtime.chat("Hello", session=begun[0] if begun else None)
        texts = [each.text for each in await runtime.history(reply.session)][:-2]
    assert reply.output == "Again."
    assert asked == ["Hello"]
    assert texts in ([], ["Refund 7", "Done.", "Refund 8", "Done."])


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "is missing"),
        ([{"role": "assistant", "content": "Hi"}], "before the first message of a person"),
        ([{"role": "robot", "content": "Hi"}], "has the role 'robot'"),
        ([{"role": "user", "content": "  "}], "is blank"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "a part that is not a text"),
        ([{"role": "user", "content": 3}], "must have a text"),
        (["Hello"], "must be a Message"),
        (OPENAI[:3], "has no result"),
        ([*OPENAI[:3], OPENAI[1]], "before the results of c1"),
        ([OPENAI[1], OPENAI[3]], "answers no open call"),
        ([OPENAI[1], {"role": "assistant", "tool_calls": [{"id": "c"}]}], "without a function"),
        (
            [
                OPENAI[1],
                {
                    "role": "assistant",
                    "tool_calls": [{"function": {"name": "a", "arguments": "["}}],
                },
            ],
            "not a JSON object",
        ),
    ],
)
async def test_messages_of_another_shape_are_refused(messages: list[Any], said: str) -> None:
    async with memory_runtime() as runtime:
        with pytest.raises(InvalidRequest, match=said):
            await runtime.import_history(messages)
        assert await runtime.sessions() == []
