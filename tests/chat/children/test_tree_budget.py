"""Children draw from the budget of the task at the root of their tree."""

from penstock import Agent, ChatSettings, ToolContext, tool
from penstock.models.scripted import ScriptedModel
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
