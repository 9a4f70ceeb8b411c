"""Budgets: which call is refused, in which order, and how the task ends."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.agents.loop import BUDGET_NOTICE
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage
from penstock.cli.interaction.conversation import frames as frames_of
from penstock.core.call import Effect
from penstock.core.limits import Limits
from penstock.models.prices import Prices
from penstock.models.providers import ModelConfig
from penstock.models.scripted import (
    SCRIPTED,
    Hold,
    ScriptedModel,
    ScriptedReply,
    call,
    fail,
    say,
    spend,
    wait,
)
from penstock.models.wires.openai import OpenAIModel
from penstock.testing.runtime import memory_runtime
from tests.kit.assistant import agent
from tests.kit.logs import code, kinds, settled
from tests.kit.model_server import Canned, delta, events, fake_server
from tests.kit.tools import Act, Gate


async def test_of_five_requested_calls_the_three_within_the_budget_run() -> None:
    look = Act("look")
    asked = ScriptedReply()
    for number in range(5):
        asked = asked + call("look", n=number)
    model = ScriptedModel([asked, say("Half of it.")])
    agents = [agent(budget_tool_calls=3, max_parallel_tools=2)]
    async with memory_runtime(model=model, tools=[look], agents=agents) as runtime:
        reply = await runtime.chat("Look around")
        outcomes = await settled(runtime, reply.session)
    assert [run["n"] for run in look.runs] == [0, 1, 2]
    assert sorted(code(each) for each in outcomes) == ["BUDGET_EXCEEDED"] * 2 + ["ok"] * 3
    assert (reply.content, reply.finish_reason) == ("Half of it.", "budget_exceeded")
    assert model.requests[1].closing


async def test_a_task_without_a_model_call_left_ends_without_a_closing_call() -> None:
    model = ScriptedModel([call("look")])
    agents = [agent(budget_model_calls=1)]
    async with memory_runtime(model=model, tools=[Act("look")], agents=agents) as runtime:
        reply = await runtime.chat("Look")
    assert (reply.content, reply.finish_reason) == (BUDGET_NOTICE, "budget_exceeded")
    assert reply.message_id


@pytest.mark.parametrize(
    ("tokens", "max_tokens", "content"),
    [(20_000, 2048, "Short."), (3_000, 512, "Short."), (2_300, 2048, BUDGET_NOTICE)],
)
async def test_a_closing_call_writes_less_when_the_budget_is_short(
    tokens: int, max_tokens: int, content: str
) -> None:
    """First as usual, then with at most 512 output tokens, then the fixed notice and no model."""
    model = ScriptedModel([spend(900, 100) + call("look"), say("Short.")])
    agents = [agent(budget_tokens=tokens, max_iterations=1)]
    async with memory_runtime(model=model, tools=[Act("look")], agents=agents) as runtime:
        reply = await runtime.chat("Look")
    assert (reply.content, model.requests[-1].max_tokens) == (content, max_tokens)


PRICED = replace(SCRIPTED, prices=Prices(input=1.0, output=10.0))


async def test_a_used_up_budget_ends_with_a_closing_call() -> None:
    """The page: "all settled: two calls blocked, or budget used up" → closing."""
    model = ScriptedModel([call("look"), say("That is all I saw.")])
    agents = [agent(budget_tool_calls=1)]
    async with memory_runtime(model=model, tools=[Act("look")], agents=agents) as runtime:
        reply = await runtime.chat("Look")
    assert (reply.content, reply.finish_reason) == ("That is all I saw.", "budget_exceeded")
    assert model.requests[-1].closing


async def test_cost_is_reserved_before_a_call() -> None:
    """The page: "a model call reserves the estimated input plus `llm_max_tokens`", 0.02 here."""
    model = ScriptedModel([spend(10, 10, 0.006) + call("look"), say("Short.")], card=PRICED)
    agents = [agent(budget_cost_usd=0.021)]
    async with memory_runtime(model=model, tools=[Act("look")], agents=agents) as runtime:
        reply = await runtime.chat("Look")
    assert (reply.content, reply.finish_reason) == ("Short.", "budget_exceeded")
    assert [each.max_tokens for each in model.requests] == [2048, 512]


async def test_a_cost_limit_is_refused_for_a_model_without_a_price() -> None:
    """The page: "price of the calls; a model without a price refuses this setting"."""
    model = ScriptedModel([say("never")])
    async with memory_runtime(model=model, agents=[agent(budget_cost_usd=1.0)]) as runtime:
        reply = await runtime.chat("Hi")
    assert reply.error
    assert "budget_cost_usd" in reply.error.message
    assert model.requests == []


@pytest.mark.parametrize(
    "reply", [spend(10, 10, 0.6), spend(0, 60_000)], ids=["by the model", "by its card"]
)
async def test_cost_is_counted(reply: ScriptedReply) -> None:
    replies = [reply + call("look"), reply + call("look")]
    model = ScriptedModel(replies, card=PRICED)
    agents = [agent(budget_cost_usd=1.0)]
    async with memory_runtime(model=model, tools=[Act("look")], agents=agents) as runtime:
        ended = await runtime.chat("Look")
    assert (ended.content, ended.usage.cost_usd) == (BUDGET_NOTICE, 1.2)


@pytest.mark.parametrize(
    ("effect", "expected"), [(Effect.READ, "BUDGET_EXCEEDED"), (Effect.WRITE, "INTERRUPTED")]
)
async def test_a_call_is_stopped_when_its_seconds_run_out(effect: Effect, expected: str) -> None:
    tools = [Act("hang", Gate(), effect=effect)]
    model = ScriptedModel([call("hang")])
    agents = [agent(budget_seconds=0.05)]
    async with memory_runtime(model=model, tools=tools, agents=agents) as runtime:
        reply = await runtime.chat("Hang")
        outcomes = await settled(runtime, reply.session)
    assert [code(each) for each in outcomes] == [expected]
    assert (reply.content, reply.finish_reason) == (BUDGET_NOTICE, "budget_exceeded")


async def watched(runtime: Runtime, content: str) -> list[dict[str, Any]]:
    """Send a message, and return its frames."""
    sent = await runtime.requests.send(NewMessage(content=content))
    return [dict(frame) async for frame in frames_of(runtime, sent, "assistant")]


SHORT = [agent(budget_seconds=0.3)]


async def test_a_reply_is_stopped_when_its_seconds_run_out() -> None:
    """What was shown of it is taken back, and the task ends in good order."""
    model = ScriptedModel([say("Hel") + wait(Hold())])
    async with memory_runtime(model=model, agents=SHORT) as runtime:
        frames = await watched(runtime, "Hi")
    assert model.unfinished == 1
    assert frames[-3:-1] == [
        {"type": "content_reset", "iteration": 1},
        {"type": "content_delta", "closing": True, "delta": BUDGET_NOTICE},
    ]
    last = frames[-1]
    assert (last["type"], last["content"]) == ("message_complete", BUDGET_NOTICE)
    assert (last["finishReason"], last["iterations"]) == ("budget_exceeded", 0)


async def test_the_reply_after_calls_is_stopped_like_the_first_one() -> None:
    model = ScriptedModel([say("Let me look.") + call("look"), wait(Hold())])
    async with memory_runtime(model=model, tools=[Act("look")], agents=SHORT) as runtime:
        frames = await watched(runtime, "Hi")
    assert frames[-3:-1] == [
        {"type": "content_reset", "iteration": 2},
        {"type": "content_delta", "closing": True, "delta": BUDGET_NOTICE},
    ]
    assert (frames[-1]["content"], frames[-1]["iterations"]) == (BUDGET_NOTICE, 1)


async def test_a_closing_call_is_stopped_when_its_seconds_run_out() -> None:
    model = ScriptedModel([call("look"), wait(Hold())])
    agents = [agent(budget_seconds=0.3, max_iterations=1)]
    async with memory_runtime(model=model, tools=[Act("look")], agents=agents) as runtime:
        frames = await watched(runtime, "Hi")
    assert frames[-3] == {"type": "content_reset", "closing": True}
    assert frames[-1]["content"] == BUDGET_NOTICE


async def test_the_wait_before_a_retry_counts_as_time() -> None:
    model = ScriptedModel([fail(503, retry_after=30)])
    async with memory_runtime(model=model, agents=SHORT) as runtime:
        reply = await runtime.chat("Hi")
    assert (reply.content, reply.finish_reason) == (BUDGET_NOTICE, "budget_exceeded")


async def test_a_stopped_reply_closes_its_connection() -> None:
    endless = Canned(events(delta(content="Hel"), done=False), hang=True)
    async with fake_server(endless) as server:
        config = ModelConfig(name="mine", provider="openai", model="m", base_url=server.url)
        model = OpenAIModel(config, Limits())
        async with memory_runtime(model=model, agents=SHORT) as runtime:
            reply = await runtime.chat("Hi")
            async with asyncio.timeout(5):
                await server.hung_up.wait()
            happened = await kinds(runtime, reply.session)
    assert (reply.content, reply.finish_reason) == (BUDGET_NOTICE, "budget_exceeded")
    assert happened[-2:] == ["ReplyRestarted", "TaskEnded"]
