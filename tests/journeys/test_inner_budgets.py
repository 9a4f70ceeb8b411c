"""Budgets of agents inside each other: an own one bounds a part, that of the caller bounds both."""

from typing import Any

import pytest
from pydantic import BaseModel

from penstock.agents.agent import Agent, ChatSettings
from penstock.core.envelope import Json
from penstock.core.limits import Limits
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.invocation import Invocation
from tests.kit.tools import Act

ASK = call("researcher", task="Find tea")
OVER = "the agent researcher has used up its own budget (`budget_…` in its settings)"
Settings = dict[str, Any]


class Finding(BaseModel):
    """What was found."""

    topic: str


def look(clock: FakeClock, seconds: float = 1) -> Act:
    """Return a tool that takes a while."""

    async def wait(input: Json, invocation: Invocation) -> str:
        clock.advance(seconds)
        return "seen"

    return Act("look", wait)


def looks(number: int) -> list[Any]:
    """Return a script that looks that often, and then answers."""
    return [*(call("look", n=n) for n in range(number)), say("Tea.")]


@pytest.mark.parametrize(
    ("inner", "outer", "looked", "said"),
    [
        ({}, {}, 3, "Tea."),
        ({"budget_tool_calls": 2}, {}, 2, "Tea."),
        ({"budget_model_calls": 2}, {}, 2, OVER),
        ({"budget_seconds": 1.5}, {}, 2, OVER),
        ({"budget_tokens": 1}, {}, 0, OVER),
        # Its own is larger than what its caller has: that of the caller counts, and ends both.
        ({"budget_tool_calls": 9}, {"budget_tool_calls": 3}, 2, None),
        ({"budget_model_calls": 9}, {"budget_model_calls": 3}, 2, None),
        ({"budget_seconds": 9}, {"budget_seconds": 1.5}, 2, None),
    ],
)
@pytest.mark.parametrize("is_typed", [False, True])
async def test_a_budget_of_an_inner_agent_bounds_its_part(
    inner: Settings, outer: Settings, looked: int, said: str | None, *, is_typed: bool
) -> None:
    clock = FakeClock()
    tool = look(clock)

    def answer(request: ModelRequest) -> ScriptedReply:
        is_over = request.closing or "No other tools" in f"{request.messages[-1]}"
        if not is_over and len(tool.runs) < 3:
            return call("look", n=len(tool.runs))
        return call("final_answer", topic="Tea.") if is_typed else say("Tea.")

    options: Any = {"output": Finding} if is_typed else {}
    researcher: Agent[Any, Any] = Agent(
        "researcher",
        model=ScriptedModel(answer),
        tools=[tool],
        settings=ChatSettings(**inner),
        **options,
    )
    model = ScriptedModel([ASK, say("Done.")])
    writer: Agent[Any, Any] = Agent(
        "writer", model=model, tools=[researcher], settings=ChatSettings(**outer)
    )
    place = MemoryStorage(clock=clock, limits=Limits(shutdown_seconds=0))
    async with memory_runtime(agents=[writer], place=place) as runtime:
        reply = await runtime.chat("Go", agent=writer)
    assert len(tool.runs) == looked
    if said is None:
        assert reply.finish_reason == "budget_exceeded"
        return
    assert (reply.output, reply.finish_reason) == ("Done.", "stop")
    assert said in model.requests[1].messages[-1].content


async def test_each_call_of_an_agent_has_the_whole_budget_and_its_own_agents_share_it() -> None:
    clock = FakeClock()
    tool = look(clock)
    inmost: Agent[Any, Any] = Agent("looker", model=ScriptedModel(looks(1) * 9), tools=[tool])
    look_in = call("looker", task="Look")
    middle: Agent[Any, Any] = Agent(
        "researcher",
        model=ScriptedModel([look_in, say("One."), look_in, look_in, say("Never.")]),
        tools=[inmost],
        settings=ChatSettings(budget_model_calls=5),
    )
    model = ScriptedModel([ASK, call("researcher", task="Again"), say("Done.")])
    writer: Agent[Any, Any] = Agent("writer", model=model, tools=[middle])
    place = MemoryStorage(clock=clock, limits=Limits(shutdown_seconds=0))
    async with memory_runtime(agents=[writer], place=place) as runtime:
        reply = await runtime.chat("Go", agent=writer)
    first, second = reply.calls
    assert first.output == "One."
    assert second.error == OVER
    # 4 requests in the first call; 5 in the second one, where the second look cannot answer.
    assert reply.usage.model_calls == 3 + 4 + 5


async def test_what_an_inner_agent_used_is_known_after_a_restart_and_waiting_costs_nothing() -> (
    None
):
    clock = FakeClock()
    tool, pay = look(clock), Act("pay", requires_approval=True)
    inner = ScriptedModel([call("look"), call("pay"), call("look", n=2), say("Never.")])
    researcher: Agent[Any, Any] = Agent(
        "researcher",
        model=inner,
        tools=[tool, pay],
        settings=ChatSettings(budget_model_calls=3, budget_seconds=60),
    )
    model = ScriptedModel([ASK, say("Done.")])
    writer: Agent[Any, Any] = Agent("writer", model=model, tools=[researcher])
    place = MemoryStorage(clock=clock, limits=Limits(shutdown_seconds=0))
    async with memory_runtime(agents=[writer], place=place) as runtime:
        reply = await runtime.chat("Go", agent=writer)
    clock.advance(3600)
    async with memory_runtime(agents=[writer], place=place) as runtime:
        reply = await runtime.approve(reply)
    assert reply.output == "Done."
    assert (len(tool.runs), len(pay.runs), len(inner.requests)) == (2, 1, 3)
    assert OVER in model.requests[1].messages[-1].content
