"""Hands: the calls of one reply run together, one after the other, or alone."""

import asyncio
from operator import itemgetter
from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage
from penstock.core.events.events import Event, TaskSuspended
from penstock.models.scripted import (
    ScriptedModel,
    call,
    say,
)
from penstock.testing.clock import settle
from penstock.testing.runtime import memory_runtime
from tests.kit.assistant import agent
from tests.kit.logs import code, events, settled
from tests.kit.tools import Act, Gate


async def test_two_tools_that_wait_for_each_other_both_finish() -> None:
    """Tools of one reply run together."""
    meeting = asyncio.Barrier(2)

    async def meet(input: Any, invocation: Any) -> str:
        await meeting.wait()
        return "met"

    asked = call("meet", who="Ann") + call("meet", who="Bob")
    tools = [Act("meet", meet)]
    async with memory_runtime(model=ScriptedModel([asked, say("Met.")]), tools=tools) as runtime:
        reply = await runtime.chat("Meet")
    assert reply.content == "Met."


async def test_with_a_bound_of_one_the_next_call_does_not_start_early() -> None:
    gate = Gate()
    first, second = Act("first", gate), Act("second")
    asked = call("first") + call("second")
    async with memory_runtime(
        model=ScriptedModel([asked, say("Ok.")]),
        tools=[first, second],
        agents=[agent(max_parallel_tools=1)],
    ) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        await gate.reached()
        assert (len(first.runs), len(second.runs)) == (1, 0)
        gate.open()
        await runtime.requests.wait(sent.task_id)
    assert len(second.runs) == 1


async def test_an_exclusive_tool_runs_alone_after_earlier_calls() -> None:
    before, alone = Gate(), Gate()
    tools = [Act("look", before), Act("alone", alone, exclusive=True), Act("after")]
    asked = call("look") + call("alone") + call("after")
    async with memory_runtime(model=ScriptedModel([asked, say("Ok.")]), tools=tools) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        await before.reached()
        assert [len(tool.runs) for tool in tools] == [1, 0, 0]
        before.open()
        await alone.reached()
        assert [len(tool.runs) for tool in tools] == [1, 1, 0]
        alone.open()
        await runtime.requests.wait(sent.task_id)
    assert [len(tool.runs) for tool in tools] == [1, 1, 1]


@pytest.mark.parametrize("key", ["disk", itemgetter("disk")], ids=["word", "function"])
async def test_calls_with_an_equal_key_run_one_after_the_other(key: Any) -> None:
    gate = Gate()
    write, look = Act("write", gate, exclusive=key), Act("look")
    asked = call("write", disk="a", n=1) + call("write", disk="a", n=2) + call("look")
    async with memory_runtime(
        model=ScriptedModel([asked, say("Ok.")]), tools=[write, look]
    ) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        await gate.reached()
        assert (len(write.runs), len(look.runs)) == (1, 1)
        gate.open()
        await runtime.requests.wait(sent.task_id)
    assert [run["n"] for run in write.runs] == [1, 2]


async def test_a_key_that_the_input_lacks_is_refused_by_the_schema_not_by_a_crash() -> None:
    schema = {"type": "object", "required": ["disk"]}
    write = Act("write", exclusive=itemgetter("disk"), input_schema=schema)
    asked = call("write") + call("write", disk="a")
    async with memory_runtime(model=ScriptedModel([asked, say("Ok.")]), tools=[write]) as runtime:
        reply = await runtime.chat("Go")
        outcomes = await settled(runtime, reply.session)
    assert sorted(code(each) for each in outcomes) == ["INVALID_INPUT", "ok"]


def unsure(input: Any) -> str:
    raise RuntimeError("no idea")


async def test_a_key_function_that_raises_fails_only_its_call() -> None:
    """The page: "A failed call gives an error result; the loop goes on."."""
    write = Act("write", exclusive=unsure)
    asked = call("write") + call("look") + call("write", disk="a")
    model = ScriptedModel([asked, say("Ok.")])
    async with memory_runtime(model=model, tools=[write, Act("look")]) as runtime:
        reply = await runtime.chat("Go")
        outcomes = await settled(runtime, reply.session)
    assert sorted(code(each) for each in outcomes) == ["TOOL_FAILED", "TOOL_FAILED", "ok"]
    assert (reply.content, write.runs) == ("Ok.", [])


async def test_while_one_call_waits_for_a_person_the_others_of_its_reply_are_settled() -> None:
    gate = Gate()
    tools = [Act("mail", requires_approval=True), Act("look", gate)]
    model = ScriptedModel([call("mail") + call("look"), say("Ok.")])
    async with memory_runtime(model=model, tools=tools) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        await gate.reached()
        await settle()
        assert not await kinds_of(runtime, sent.session_id, TaskSuspended)
        gate.open()
        await runtime.requests.wait(sent.task_id)
        assert [code(each) for each in await settled(runtime, sent.session_id)] == ["ok"]
        assert await kinds_of(runtime, sent.session_id, TaskSuspended)


async def kinds_of(runtime: Runtime, log_id: str, kind: type[Event]) -> list[Event]:
    """Return the events of one kind."""
    return [each for each in await events(runtime, log_id) if isinstance(each, kind)]
