"""An agent is a tool of another one."""

from pydantic_ai import Agent, RunContext

researcher = Agent("openai:gpt-5")
writer = Agent("openai:gpt-5")


@writer.tool
async def research(ctx: RunContext, topic: str) -> str:
    """Researches a topic."""
    return (await researcher.run(topic, usage=ctx.usage)).output


print(writer.run_sync("Write about tides").output)
