"""The promises of the chat: its loop, its formats, its loop detection, sentence by sentence."""

import asyncio
import json
from typing import Any

import pytest

from penstock.chat.requests import NewMessage
from penstock.core.call_errors import ToolFailed
from penstock.core.events.events import Record, ReplyReceived, TaskEnded
from penstock.core.ids import LogId
from penstock.core.messages import AssistantMessage, ToolMessage, UserMessage
from penstock.core.task import TaskStatus
from penstock.engine.bus import ReplyStarted
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, raw_call, say
from penstock.testing.runtime import memory_runtime
from tests.kit.asking import ask
from tests.kit.assistant import agent
from tests.kit.logs import code, events, settled
from tests.kit.tools import Act, Gate, echo, raising


def always_new(request: ModelRequest) -> ScriptedReply:
    return say("Done.") if request.closing else call("look", n=len(request.messages))


def returning(output: Any) -> Any:
    async def deed(given: Any, invocation: Any) -> Any:
        return output

    return deed


async def test_at_most_eight_iterations() -> None:
    """9: "max 8 iterations": the calls of the 8th run, the 9th model call has no tools."""
    model, look = ScriptedModel(always_new), Act("look", echo)
    async with memory_runtime(model=model, tools=[look]) as runtime:
        reply = await ask(runtime, "Go")
    assert (reply.iterations, len(look.runs), len(model.requests)) == (8, 8, 9)
    assert (reply.content, model.requests[8].closing) == ("Done.", True)


async def test_thinking_precedes_the_model_call_of_each_iteration() -> None:
    """10 and 11: "send thinking event, call LLM with tools"."""
    model = ScriptedModel([call("look"), say("Seen.")])
    seen = []
    async with memory_runtime(model=model, tools=[Act("look"), Act("mail")]) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        async for item in runtime.requests.follow(LogId(sent.session_id)):
            if isinstance(item, ReplyStarted):
                seen.append(f"thinking {item.reply.iteration}")
            elif isinstance(item, Record) and isinstance(item.event, ReplyReceived):
                seen.append(f"reply {item.event.iteration}")
            elif isinstance(item, Record) and isinstance(item.event, TaskEnded):
                break
    assert seen == ["thinking 1", "reply 1", "thinking 2", "reply 2"]
    for request in model.requests:
        assert [tool.name for tool in request.tools] == ["look", "mail"]


async def test_no_tools_means_respond() -> None:
    """12 and 13: "parse tool calls; if no tools, respond"."""
    async with memory_runtime(model=ScriptedModel([say("Hi.")]), tools=[Act("look")]) as runtime:
        reply = await ask(runtime, "Hello")
    assert (reply.iterations, reply.finish_reason, reply.content) == (1, "stop", "Hi.")


async def test_each_tool_is_executed_and_its_result_added_to_the_context() -> None:
    """14 to 16: "execute each tool, add results to context, next iteration"."""
    model = ScriptedModel([say("Both.") + call("a", n=1) + call("b", n=2), say("Done.")])
    async with memory_runtime(model=model, tools=[Act("a", echo), Act("b", echo)]) as runtime:
        await ask(runtime, "Go")
    user, assistant, *results = model.requests[1].messages
    assert user == UserMessage("Go")
    assert isinstance(assistant, AssistantMessage)
    assert (assistant.content, [each.name for each in assistant.calls]) == ("Both.", ["a", "b"])
    assert results == [
        ToolMessage(asked.call_id, asked.name, f'{{"n":{n}}}')
        for n, asked in enumerate(assistant.calls, 1)
    ]


async def test_the_final_response_is_stored() -> None:
    """17: "final response"."""
    async with memory_runtime(model=ScriptedModel([say("All ", "done.")])) as runtime:
        reply = await ask(runtime, "Go")
        ended = (await events(runtime, reply.session_id))[-1]
    assert isinstance(ended, TaskEnded)
    assert (ended.content, ended.message_id) == ("All done.", reply.message_id)
    assert reply.content == "All done."


async def test_repeated_identical_tool_calls_are_stopped() -> None:
    """18, 37 to 39: of the last 10 calls the same tool with equal arguments runs at most twice."""
    look = Act("look", echo)
    replies = [
        raw_call("look", '{"a":1,"b":2}'),
        raw_call("look", '{"b":2.0,"a":1}'),
        raw_call("look", '{ "a": 1e0, "b": 2 }'),
        say("Enough."),
    ]
    async with memory_runtime(model=ScriptedModel(replies), tools=[look]) as runtime:
        reply = await ask(runtime, "Go")
        outcomes = await settled(runtime, reply.session_id)
    assert [code(each) for each in outcomes] == ["ok", "ok", "LOOP_DETECTED"]
    assert (len(look.runs), reply.content) == (2, "Enough.")


async def test_it_terminates_after_eight_rounds_of_any_calls() -> None:
    """40: also when every call is new and brings something new."""
    model = ScriptedModel(always_new)
    async with memory_runtime(model=model, tools=[Act("look", echo)]) as runtime:
        reply = await ask(runtime, "Go")
        outcomes = await settled(runtime, reply.session_id)
    assert {code(each) for each in outcomes} == {"ok"}
    assert (reply.finish_reason, reply.status) == ("max_iterations", TaskStatus.SUCCEEDED)


async def test_multiple_tools_can_run_concurrently() -> None:
    """19: two tools that wait for each other finish."""
    meeting = asyncio.Barrier(2)

    async def meet(given: Any, invocation: Any) -> str:
        await meeting.wait()
        return "met"

    model = ScriptedModel([call("meet", n=1) + call("meet", n=2), say("Met.")])
    async with memory_runtime(model=model, tools=[Act("meet", meet)]) as runtime:
        assert (await ask(runtime, "Go")).content == "Met."


async def test_a_call_beyond_the_bound_does_not_start_early() -> None:
    """19: "multiple tools can run concurrently", at most `max_parallel_tools` of them."""
    gate = Gate()
    look, agents = Act("look", gate), [agent(max_parallel_tools=2)]
    asked = call("look", n=1) + call("look", n=2) + call("look", n=3)
    model = ScriptedModel([asked, say("Done.")])
    async with memory_runtime(model=model, tools=[look], agents=agents) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        await gate.reached()
        assert [run["n"] for run in look.runs] == [1, 2]
        gate.open()
        await runtime.requests.wait(sent.task_id)
    assert len(look.runs) == 3


async def test_a_result_of_ten_thousand_characters_passes_whole() -> None:
    """20: "large results are trimmed"."""
    model = ScriptedModel([call("long"), say("Long.")])
    tools = [Act("long", returning("x" * 10_000))]
    async with memory_runtime(model=model, tools=tools) as runtime:
        await ask(runtime, "Go")
    text = model.requests[1].messages[-1].content
    assert text == "x" * 10_000


async def test_a_result_of_one_character_more_is_clipped_to_ten_thousand() -> None:
    """20: "large results are trimmed"; the whole is kept."""
    model = ScriptedModel([call("long"), say("Long.")])
    tools = [Act("long", returning("x" * 10_001))]
    async with memory_runtime(model=model, tools=tools) as runtime:
        reply = await ask(runtime, "Go")
        (outcome,) = await settled(runtime, reply.session_id)
    text = model.requests[1].messages[-1].content
    where = f"full result in artifact {outcome.artifact_id}]"
    assert text.endswith(f"\n[truncated: 10001 characters in all; {where}")
    assert (len(text), outcome.total_characters) == (10_000, 10_001)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (call("fails"), "TOOL_FAILED"),
        (call("raises"), "TOOL_FAILED"),
        (call("hangs"), "TIMEOUT"),
        (call("unknown"), "TOOL_NOT_FOUND"),
        (call("strict"), "INVALID_INPUT"),
    ],
)
async def test_failed_tools_report_errors_and_the_loop_continues(
    asked: ScriptedReply, expected: str
) -> None:
    """21: also for a tool that raises, times out, is unknown, gets bad input."""
    tools = [
        Act("fails", raising(ToolFailed("no luck"))),
        Act("raises", raising(ValueError("oops"))),
        Act("hangs", Gate(), timeout_ms=10),
        Act("strict", input_schema={"type": "object", "required": ["n"]}),
    ]
    model = ScriptedModel([asked, say("I go on.")])
    async with memory_runtime(model=model, tools=tools) as runtime:
        reply = await ask(runtime, "Go")
    said = json.loads(model.requests[1].messages[-1].content)
    assert set(said) <= {"error", "code", "suggestion", "details"}
    assert (said["code"], reply.content) == (expected, "I go on.")


async def test_a_tool_call_and_its_result_in_the_transcript() -> None:
    """31 and 32: a call has id, name and arguments; a result its call's id, and JSON text."""
    model = ScriptedModel([call("search_knowledge", query="React tutorials"), say("None.")])
    tools = [Act("search_knowledge", returning({"results": []}))]
    async with memory_runtime(model=model, tools=tools) as runtime:
        reply = await ask(runtime, "Find")
        (outcome,) = await settled(runtime, reply.session_id)
    _, assistant, result = model.requests[1].messages
    assert isinstance(assistant, AssistantMessage)
    (asked,) = assistant.calls
    assert (asked.name, asked.arguments) == ("search_knowledge", {"query": "React tutorials"})
    assert isinstance(result, ToolMessage)
    assert (result.call_id, result.content) == (asked.call_id, '{"results":[]}')
    assert (outcome.call_id, outcome.preview) == (asked.call_id, "Found 0 results")


@pytest.mark.parametrize(("enabled", "offered"), [(True, ["look"]), (False, [])])
async def test_enable_tools_in_the_request(enabled: bool, offered: list[str]) -> None:
    """41: `enableTools` in the request; its default is true."""
    assert NewMessage(content="Hi").enable_tools
    model = ScriptedModel([say("Hi.")])
    async with memory_runtime(model=model, tools=[Act("look")]) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hi", enable_tools=enabled))
        await runtime.requests.wait(sent.task_id)
    assert [tool.name for tool in model.requests[0].tools] == offered
