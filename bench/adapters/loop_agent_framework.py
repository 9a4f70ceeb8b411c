"""Microsoft Agent Framework, its loop."""

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)

from bench.kit.script import FINAL, current

DISTRIBUTION = "agent-framework-core"
META = {"persistence": "none"}


class Fake(FunctionInvocationLayer, BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **kwargs):
        async def answer():
            calls = current().next(len(messages))
            contents = [
                Content.from_function_call(call_id, "add", arguments=args)
                for call_id, args in calls
            ]
            return ChatResponse(
                messages=[Message("assistant", contents or [Content.from_text(FINAL)])],
                response_id="r",
            )

        return answer()


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return current().add(a, b)


def make():
    client = Fake()
    client.function_invocation_configuration["max_iterations"] = 100_000
    return Agent(client=client, tools=[add])


async def run(agent):
    return (await agent.run("go")).text
