"""Children draw from the budget of the task at the root of their tree."""

import pytest

from penstock import Agent, ChatSettings, ToolContext, tool
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import memory_runtime
from tests.kit.children import script


@tool(effect="none")
async def plan(ctx: ToolContext) -> list[str]:
    """Plan."""
    children = [await ctx.spawn("Find the apples", key=str(number)) for number in range(5)]
    results = await ctx.gather(*children, settled=True)
    return sorted(f"{each.status} {each.code}".strip() for each in results)


async def outcomes(most: int) -> str:
    """Return how five children end if their root may ask its model so often."""
    agent = Agent("clerk", tools=[plan], settings=ChatSettings(budget_model_calls=most))
    async with memory_runtime(model=ScriptedModel(script()), agents=[agent]) as runtime:
        reply = await runtime.chat("Go", agent=agent)
        return str(reply.calls[0].output)


async def test_children_cannot_ask_models_more_often_than_their_root_may() -> None:
    """The first call of the root is one of the three: two children get theirs."""
    failed = "failed BUDGET_EXCEEDED"
    assert await outcomes(3) == str([failed] * 3 + ["succeeded"] * 2)


async def test_a_budget_that_is_large_enough_stops_no_child() -> None:
    assert await outcomes(20) == str(["succeeded"] * 5)


@tool(effect="none")
async def plan_three(ctx: ToolContext) -> list[str]:
    """Plan."""
    children = [await ctx.spawn("Find the apples", key=str(number)) for number in range(3)]
    return [str(each) for each in await ctx.gather(*children)]


@tool(effect="none")
async def pay(ctx: ToolContext) -> str:
    """Ask, so that the task is resumed after its children have ended."""
    return await ctx.ask("Pay?")


@pytest.mark.parametrize(
    ("most", "finish", "calls"),
    [(4, "budget_exceeded", 4), (5, "budget_exceeded", 5), (6, "stop", 6)],
)
async def test_a_root_and_its_children_spend_one_budget(most: int, finish: str, calls: int) -> None:
    """The root asks its model three times, its children once each."""
    agent = Agent("clerk", tools=[plan_three, pay], settings=ChatSettings(budget_model_calls=most))
    replies = script() | {"Go": [call("plan_three"), call("pay"), say("All done.")]}
    model = ScriptedModel(replies)
    async with memory_runtime(model=model, agents=[agent]) as runtime:
        reply = await runtime.chat("Go", agent=agent)
        if reply.questions:
            await runtime.answer(reply.questions[0].id, "yes")
            reply = await runtime.attach(reply.task_id).reply()
        assert (reply.status, reply.finish_reason, len(model.requests)) == (
            "succeeded",
            finish,
            calls,
        )
