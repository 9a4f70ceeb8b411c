"""A tool uses a client of the program."""

from pydantic_ai import Agent, RunContext


class Orders:
    async def status(self, order: int) -> str:
        return f"{order} has left the warehouse"


clerk = Agent("openai:gpt-5", deps_type=Orders)


@clerk.tool
async def status(ctx: RunContext[Orders], order: int) -> str:
    """Look up an order."""
    return await ctx.deps.status(order)


print(clerk.run_sync("Where is order 7?", deps=Orders()).output)
