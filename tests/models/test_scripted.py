"""The scripted model: it replies as the test scripts it."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from penstock.core.clock import Moment
from penstock.core.errors import ModelRefused, ModelUnavailable, RuntimeMisuse
from penstock.core.ids import CallId
from penstock.core.messages import AssistantMessage, Message, ToolMessage, Usage, UserMessage
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolDefinition,
)
from penstock.models.scripted import (
    Hold,
    ScriptedModel,
    ScriptedReply,
    call,
    end,
    fail,
    raw_call,
    say,
    slow,
    spend,
    think,
    wait,
)
from penstock.testing.runtime import memory_runtime
from tests.kit.tools import Act

ADD = ToolDefinition(name="add", description="Add numbers", parameters={"type": "object"})


class HandMovedClock:
    """Notes how long it was asked to sleep, and does not."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> Moment:
        return Moment(0)

    def monotonic(self) -> float:
        return 0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def request(*messages: Message) -> ModelRequest:
    return ModelRequest(system="", messages=messages or (UserMessage("go"),), tools=(ADD,))


async def heard(model: ScriptedModel, *messages: Message) -> list[ModelEvent]:
    return [event async for event in model.stream(request(*messages))]


async def said(model: ScriptedModel, *messages: Message) -> str:
    events = await heard(model, *messages)
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def finished(reason: str, tokens: int) -> Finished:
    return Finished(reason, Usage(input_tokens=1, output_tokens=tokens))


@pytest.mark.parametrize(
    ("reply", "events"),
    [
        (say("Hel", "lo"), [TextDelta("Hel"), TextDelta("lo"), finished("stop", 2)]),
        (
            think("hm") + say("yes"),
            [ReasoningDelta("hm"), TextDelta("yes"), finished("stop", 2)],
        ),
        (
            call("add", a=1, name="x"),
            [
                CallDelta(0, "add"),
                CallDelta(0, "", '{"a": 1, "name": "x"}'),
                finished("tool_calls", 2),
            ],
        ),
        (
            raw_call("add", "{") + raw_call("mul") + end("length"),
            [
                CallDelta(0, "add"),
                CallDelta(0, "", "{"),
                CallDelta(1, "mul"),
                finished("length", 3),
            ],
        ),
        (
            say("a") + spend(7, 8, 0.5),
            [
                TextDelta("a"),
                Finished("stop", Usage(input_tokens=7, output_tokens=8, cost_usd=0.5)),
            ],
        ),
        (ScriptedReply(), [finished("stop", 0)]),
    ],
)
async def test_a_reply_streams_as_written(reply: ScriptedReply, events: list[ModelEvent]) -> None:
    assert await heard(ScriptedModel([reply])) == events


async def test_a_sequence_is_played_in_order_and_ends_with_advice() -> None:
    model = ScriptedModel([say("one"), say("two")])
    assert [await said(model), await said(model)] == ["one", "two"]
    with pytest.raises(ModelRefused, match="2 replies and was asked for one more, after 'go'"):
        await said(model)


async def test_a_mapping_is_found_by_content_so_conversations_may_interleave() -> None:
    model = ScriptedModel({"sum": [call("add"), say("3")], "": say("?"), "sum of all": say("all")})
    asked = UserMessage("the sum, please")
    after = (asked, AssistantMessage(""), ToolMessage(CallId("c"), "add", "3"))
    for _ in range(2):
        assert next(iter(await heard(model, asked))) == CallDelta(0, "add")
        assert await said(model, *after) == "3"
    assert await said(model, UserMessage("hello")) == "?"
    assert await said(model, *after, UserMessage("the sum of all")) == "all"


async def test_the_error_of_a_mapping_without_a_reply_has_the_request() -> None:
    model = ScriptedModel({"sum": say("3")})
    with pytest.raises(ModelRefused, match=r"no reply number 1 to 'hi' \(its keys: 'sum'\)"):
        await said(model, UserMessage("hi"))
    with pytest.raises(ModelRefused, match="no reply number 2 to 'sum'"):
        await said(model, UserMessage("sum"), AssistantMessage("3"))


async def test_a_function_sees_the_request() -> None:
    model = ScriptedModel(lambda asked: say(asked.tools[0].name))
    assert await said(model) == "add"


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        (fail(503), ModelUnavailable, "the scripted model answered 503"),
        (say("a") + fail(429, retry_after=2), ModelUnavailable, "answered 429"),
        (fail(400, "no such model"), ModelRefused, "no such model"),
    ],
)
async def test_a_failure_breaks_off(
    reply: ScriptedReply, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        await heard(ScriptedModel([reply]))


@pytest.mark.parametrize(
    ("script", "advice"),
    [
        ("hi", r"a script is a list: write \[say\(\"Done.\"\)\], found 'hi'"),
        (5, "a script is a list"),
        (say("Hi."), "a script is a list"),
        ([5], r"write `say\(...\)` for a text, found 5"),
        (["hi"], r"write `say\(...\)` for a text, found 'hi'"),
        ([[call("add"), call("add")]], r"write `call\(...\) \+ call\(...\)` for one reply"),
        ({"sum": "3"}, "a script is a list"),
        ({"sum": [call("add"), "3"]}, "for a text, found '3'"),
    ],
)
def test_a_script_of_something_else_is_refused_when_it_is_written(script: Any, advice: str) -> None:
    with pytest.raises(RuntimeMisuse, match=advice):
        ScriptedModel(script)


def test_a_failure_wants_its_status() -> None:
    reason: Any = "down"
    with pytest.raises(RuntimeMisuse, match=r"write fail\(503, 'down'\)"):
        fail(reason)


async def test_a_function_that_returns_no_reply_is_told_what_to_write() -> None:
    reply: Any = "hi"
    with pytest.raises(ModelRefused, match="for a text, found 'hi'"):
        await said(ScriptedModel(lambda _: reply))


async def test_a_failure_keyed_by_content_is_given_once() -> None:
    model = ScriptedModel({"": [fail(), fail(), say("at last")]})
    for _ in range(2):
        with pytest.raises(ModelUnavailable):
            await said(model)
    assert await said(model) == "at last"
    assert await said(model) == "at last"


async def test_a_slow_reply_waits_on_the_clock_it_was_given() -> None:
    clock = HandMovedClock()
    model = ScriptedModel([say("a") + slow(60) + say("b")], clock=clock)
    assert await said(model) == "ab"
    assert clock.slept == [60]


async def test_a_hold_pauses_a_reply_until_the_test_continues() -> None:
    hold = Hold()
    model = ScriptedModel([say("a") + wait(hold) + say("b")])
    answer = asyncio.create_task(said(model))
    await hold.reached()
    assert not answer.done()
    hold.release()
    assert await answer == "ab"


async def test_requests_are_kept_as_they_were() -> None:
    model = ScriptedModel([say("a")])
    messages: list[Message] = [UserMessage("hi")]
    asked = ModelRequest(system="be brief", messages=messages, tools=[ADD])
    assert [event async for event in model.stream(asked)]
    messages.append(AssistantMessage("a"))
    assert model.requests[0].messages == (UserMessage("hi"),)
    assert [tool.name for tool in model.requests[0].tools] == ["add"]


async def test_it_counts_replies_that_were_not_read_to_their_end() -> None:
    model = ScriptedModel([say("a", "b"), say("c")], record=False)
    async with aclosing(model.stream(request())) as stream:
        await anext(stream)
    assert model.unfinished == 1
    assert await said(model) == "c"
    assert (model.unfinished, model.requests) == (1, [])


async def test_a_recorded_task_runs_again_with_the_same_replies() -> None:
    script = [
        think("Hm.") + say("Let me ", "look.") + call("look", n=1),
        say("Done."),
    ]
    replies = []
    model = ScriptedModel(script)
    for _ in range(2):
        look = Act("look")
        async with memory_runtime(model=model, tools=[look]) as runtime:
            replies.append(await runtime.chat("Look"))
        assert look.runs == [{"n": 1}]
        model = ScriptedModel.from_log(replies[0])
    first, second = replies
    assert (first.content, first.usage) == (second.content, second.usage)
    assert [each.tool for each in first.calls] == [each.tool for each in second.calls]


async def test_a_task_without_a_reply_of_a_model_has_no_script() -> None:
    async with memory_runtime(model=ScriptedModel({"": fail(400)})) as runtime:
        reply = await runtime.chat("Hello")
    with pytest.raises(RuntimeMisuse, match="so it has no script"):
        ScriptedModel.from_log(reply)


@pytest.mark.parametrize("given", ["task_1", None, ScriptedModel([])])
def test_only_a_reply_has_a_script(given: Any) -> None:
    with pytest.raises(RuntimeMisuse, match="from_log takes a Reply, found"):
        ScriptedModel.from_log(given)
