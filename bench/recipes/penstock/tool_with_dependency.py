"""A tool uses a client of the program."""

from penstock import Agent, ToolContext, chat_sync, tool


class Orders:
    async def status(self, order: int) -> str:
        return f"{order} has left the warehouse"


@tool(effect="read")
async def status(ctx: ToolContext[Orders], order: int) -> str:
    """Look up an order."""
    return await ctx.deps.status(order)


clerk = Agent("clerk", model="openai:gpt-5", tools=[status])
print(chat_sync("Where is order 7?", agent=clerk, deps=Orders()).output)
