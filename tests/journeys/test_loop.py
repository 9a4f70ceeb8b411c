"""The loop, row by row of its table: a scripted model, tools that count, the log in memory."""

import json
from typing import Any

import pytest

from penstock.agents.loop import EMPTY_NOTICE
from penstock.agents.tool_offer import CLOSING_NOTE
from penstock.core.call_errors import ScriptLoadError, ToolFailed
from penstock.core.events.codec import decode, encode, kind_of
from penstock.core.ids import LogId
from penstock.core.messages import AssistantMessage, ToolMessage, UserMessage
from penstock.core.task import TaskStatus
from penstock.models.model import ModelRequest
from penstock.models.scripted import (
    ScriptedModel,
    ScriptedReply,
    call,
    end,
    raw_call,
    say,
    think,
)
from penstock.testing.runtime import memory_runtime
from penstock.tools.policy import Action, Rule
from tests.kit.asking import ask
from tests.kit.assistant import agent
from tests.kit.logs import code, kinds, settled
from tests.kit.tools import Act, Gate, echo, raising


def always_calling(request: ModelRequest) -> ScriptedReply:
    """Ask for a new call whenever that is possible."""
    return say("That is all.") if request.closing else call("look", n=len(request.messages))


async def test_a_closing_call_without_tools_follows_eight_iterations() -> None:
    """At most 8 iterations; the calls of the eighth are run, and there is an answer."""
    model, look = ScriptedModel(always_calling), Act("look", echo)
    async with memory_runtime(model=model, tools=[look]) as runtime:
        reply = await ask(runtime, "Go on")
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "That is all.")
    assert (reply.finish_reason, reply.iterations) == ("max_iterations", 8)
    assert (len(look.runs), len(model.requests)) == (8, 9)
    assert [request.closing for request in model.requests] == [False] * 8 + [True]
    assert model.requests[-1].messages[-1] == CLOSING_NOTE
    assert len({request.system for request in model.requests}) == 1


async def test_a_closing_reply_that_calls_tools_runs_none() -> None:
    model = ScriptedModel([call("look"), say("Enough. ") + call("look", n=2)])
    look = Act("look")
    async with memory_runtime(
        model=model, tools=[look], agents=[agent(max_iterations=1)]
    ) as runtime:
        reply = await ask(runtime, "Go")
    assert (reply.content, reply.finish_reason) == ("Enough. ", "max_iterations")
    assert len(look.runs) == 1


@pytest.mark.parametrize(
    ("replies", "content", "finish", "iterations"),
    [
        ([say("Hi")], "Hi", "stop", 1),
        ([say("Hi") + end("length")], "Hi", "length", 1),
        ([say("No.") + end("content_filter")], "No.", "content_filter", 1),
        ([say(), say("Sorry, again: hi")], "Sorry, again: hi", "stop", 1),
        ([think("hm"), say("Hi")], "Hi", "stop", 1),
        ([say(), say()], EMPTY_NOTICE, "stop", 1),
        ([call("look"), say(), say("Seen.")], "Seen.", "stop", 2),
        ([say("I look.") + call("look"), say("Seen.")], "Seen.", "stop", 2),
    ],
)
async def test_a_reply_becomes_an_answer_as_the_table_shows(
    replies: list[ScriptedReply], content: str, finish: str, iterations: int
) -> None:
    """An empty reply is followed by a closing call; an empty closing reply by a fixed notice."""
    async with memory_runtime(model=ScriptedModel(replies), tools=[Act("look")]) as runtime:
        reply = await ask(runtime, "Hello")
    assert (reply.content, reply.finish_reason, reply.iterations) == (content, finish, iterations)


async def test_one_message_with_one_tool_has_this_log() -> None:
    async with memory_runtime(
        model=ScriptedModel([call("look"), say("Seen.")]), tools=[Act("look")]
    ) as runtime:
        reply = await ask(runtime, "Look")
        assert await kinds(runtime, reply.session_id) == [
            "SessionOpened",
            "MessageReceived",
            "TaskStarted",
            "ReplyReceived",
            "CallSettled",
            "ReplyReceived",
            "TaskEnded",
        ]


async def test_the_next_model_call_has_every_result_in_call_order() -> None:
    slow = Gate()

    async def open_slow(input: Any, invocation: Any) -> str:
        slow.open()
        return "quick"

    tools = [Act("slow", slow), Act("quick", open_slow), quick_failing()]
    asked = call("slow") + call("quick") + call("broken")
    model = ScriptedModel([asked, say("Done.")])
    async with memory_runtime(model=model, tools=tools) as runtime:
        reply = await ask(runtime, "All at once")
        order = [each.tool_id for each in await settled(runtime, reply.session_id)]
    assert order.index("quick") < order.index("slow")
    user, assistant, *results = model.requests[1].messages
    assert user == UserMessage("All at once")
    assert isinstance(assistant, AssistantMessage)
    assert [each.name for each in assistant.calls] == ["slow", "quick", "broken"]
    values = [each for each in results if isinstance(each, ToolMessage)]
    assert [each.call_id for each in values] == [each.call_id for each in assistant.calls]
    assert [each.ok for each in values] == [True, True, False]
    assert json.loads(values[0].content) == {"passed": True}
    assert json.loads(values[2].content) == {"error": "out of order", "code": "TOOL_FAILED"}


def quick_failing() -> Act:
    return Act("broken", raising(ToolFailed("out of order")))


STRICT = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (call("strict", n=1), "ok"),
        (call("strict", n="one"), "INVALID_INPUT"),
        (call("strikt", n=1), "TOOL_NOT_FOUND"),
        (call("", n=1), "TOOL_NOT_FOUND"),
        (call("forbidden"), "NOT_PERMITTED"),
        (raw_call("strict", '{"n": 1'), "INVALID_INPUT"),
        (raw_call("strict", "[1]"), "INVALID_INPUT"),
        (raw_call("strict", "null"), "INVALID_INPUT"),
        (raw_call("strict", '{"n": NaN}'), "INVALID_INPUT"),
        (raw_call("strict", '{"n": 1e999}'), "INVALID_INPUT"),
        (raw_call("strict", "[" * 100_000), "INVALID_INPUT"),
        (raw_call("free", ""), "ok"),
        (raw_call("free", "") + end("length"), "INVALID_INPUT"),
        (raw_call("free", "{}") + end("length"), "ok"),
        (raw_call("free", '{"text": "half a sen') + end("length"), "INVALID_INPUT"),
        (call("raises"), "TOOL_FAILED"),
        (call("hangs"), "TIMEOUT"),
    ],
)
async def test_a_failed_tool_reports_its_error_and_the_loop_continues(
    asked: ScriptedReply, expected: str
) -> None:
    tools = [
        Act("strict", input_schema=STRICT),
        Act("free"),
        Act("forbidden"),
        Act("raises", raising(ZeroDivisionError("division by zero"))),
        Act("hangs", Gate(), timeout_ms=20),
    ]
    rules = [Rule(tool="forbidden", action=Action.DENY)]
    model = ScriptedModel([asked, say("I go on.")])
    async with memory_runtime(model=model, tools=tools, rules=rules) as runtime:
        reply = await ask(runtime, "Try it")
        outcomes = await settled(runtime, reply.session_id)
    assert reply.content == "I go on."
    assert [code(each) for each in outcomes] == [expected]
    message = model.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    loads = json.loads(message.content)
    assert loads.get("code", "ok") == expected


async def test_an_unknown_tool_is_refused_with_the_nearest_offered_name() -> None:
    model = ScriptedModel([call("serch"), say("Ah.")])
    tools = [Act("search"), Act("serch_hidden")]
    agents = [agent(enabled_tools=("search",))]
    async with memory_runtime(model=model, tools=tools, agents=agents) as runtime:
        reply = await ask(runtime, "Search")
        (outcome,) = await settled(runtime, reply.session_id)
    assert outcome.envelope.error
    assert outcome.envelope.error.message == ("There is no tool 'serch'. Did you mean 'search'?")


async def test_only_the_cut_call_of_a_reply_is_refused() -> None:
    look = Act("look")
    asked = call("look", n=1) + raw_call("look", '{"n": ') + end("length")
    async with memory_runtime(model=ScriptedModel([asked, say("Ok.")]), tools=[look]) as runtime:
        reply = await ask(runtime, "Look twice")
        outcomes = await settled(runtime, reply.session_id)
    assert sorted(code(each) for each in outcomes) == ["INVALID_INPUT", "ok"]
    refused = next(each for each in outcomes if not each.envelope.ok)
    assert refused.envelope.error
    assert "cut off by llm_max_tokens" in refused.envelope.error.message
    assert look.runs == [{"n": 1}]


async def test_two_equal_calls_of_one_reply_each_have_an_id_and_a_result() -> None:
    look = Act("look")
    asked = call("look", n=1) + call("look", n=1)
    async with memory_runtime(model=ScriptedModel([asked, say("Ok.")]), tools=[look]) as runtime:
        reply = await ask(runtime, "Look twice")
        outcomes = await settled(runtime, reply.session_id)
    assert len({each.call_id for each in outcomes}) == 2
    assert len(look.runs) == 2


async def test_a_result_that_is_not_continuable_fails_the_task() -> None:
    broken = Act("broken", raising(ScriptLoadError("no way")))
    model = ScriptedModel([call("broken") + call("look"), say("never said")])
    look = Act("look")
    async with memory_runtime(model=model, tools=[broken, look]) as runtime:
        reply = await ask(runtime, "Try")
        outcomes = await settled(runtime, reply.session_id)
    assert (reply.status, len(model.requests)) == (TaskStatus.FAILED, 1)
    assert reply.error
    assert reply.error.code == "SCRIPT_LOAD_ERROR"
    assert len(outcomes) == 2


async def test_two_blocked_calls_end_in_a_closing_call() -> None:
    """Transcript 8.4: the third equal call is blocked, the fourth too, then the answer follows."""
    look = Act("look")
    model = ScriptedModel([call("look")] * 4 + [say("Nothing is known of x.")])
    async with memory_runtime(model=model, tools=[look]) as runtime:
        reply = await ask(runtime, "What is x?")
        outcomes = await settled(runtime, reply.session_id)
    assert (reply.content, reply.finish_reason) == ("Nothing is known of x.", "loop_detected")
    assert [each.detector for each in outcomes] == [None, None, "identical", "identical"]
    assert (reply.iterations, reply.usage.model_calls, reply.usage.tool_calls) == (4, 5, 2)
    assert len(look.runs) == 2


@pytest.mark.parametrize(
    ("number", "why"),
    [
        ("1e400", "1e400 is too large for a number"),
        ("-1e400", "-1e400 is too large for a number"),
        ("NaN", "NaN is not a number of JSON"),
        ("9" * 5000, "99999999999999999999… is too large for a number"),
    ],
)
async def test_a_number_that_no_log_can_store_is_an_error_for_the_model(
    number: str, why: str
) -> None:
    """It was infinity in the state at work, and null in the state that is folded from the log."""
    asked = f'{{"n": {number}}}'
    model = ScriptedModel([raw_call("look", asked), say("Too large."), say("Hello.")])
    look = Act("look", echo)
    async with memory_runtime(model=model, tools=[look]) as runtime:
        first = await ask(runtime, "Look")
        second = await ask(runtime, "Hi", session=first.session_id)
        records = await runtime.parts.storage.log.read(LogId(first.session_id))
    assert [each.status for each in (first, second)] == [TaskStatus.SUCCEEDED] * 2
    assert (look.runs, first.content, second.content) == ([], "Too large.", "Hello.")
    (result,) = [each for each in model.requests[1].messages if isinstance(each, ToolMessage)]
    assert json.loads(result.content)["code"] == "INVALID_INPUT"
    assert why in result.content
    again = [decode(kind_of(each.event), encode(each.event)) for each in records]
    assert again == [each.event for each in records]
