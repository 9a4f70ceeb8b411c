"""Pydantic AI, its loop.

The model is a class of its own, because FunctionModel counts tokens over the whole history.
"""

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.usage import RequestUsage

from bench.kit.script import FINAL, current

DISTRIBUTION = "pydantic-ai-slim"
META = {"persistence": "none"}
LIMITS = UsageLimits(request_limit=None)


class Fake(Model):
    @property
    def model_name(self):
        return "fake"

    @property
    def system(self):
        return "fake"

    async def request(self, messages, model_settings, model_request_parameters):
        calls = current().next(len(messages))
        parts = [ToolCallPart("add", args, tool_call_id=call_id) for call_id, args in calls] or [
            TextPart(FINAL)
        ]
        return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=1, output_tokens=1))


def make():
    agent = Agent(Fake())

    @agent.tool_plain
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return current().add(a, b)

    return agent


async def run(agent):
    return (await agent.run("go", usage_limits=LIMITS)).output
