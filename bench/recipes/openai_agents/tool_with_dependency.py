"""A tool uses a client of the program."""

from agents import Agent, RunContextWrapper, Runner, function_tool


class Orders:
    async def status(self, order: int) -> str:
        return f"{order} has left the warehouse"


@function_tool
async def status(ctx: RunContextWrapper[Orders], order: int) -> str:
    """Look up an order."""
    return await ctx.context.status(order)


clerk = Agent[Orders](name="clerk", model="gpt-5", tools=[status])
print(Runner.run_sync(clerk, "Where is order 7?", context=Orders()).final_output)
