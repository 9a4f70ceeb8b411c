"""Agno, its loop."""

import json

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

from bench.kit.script import FINAL, current

DISTRIBUTION = "agno"
META = {"persistence": "none"}


class Fake(Model):
    def __init__(self):
        super().__init__(id="fake", name="fake", provider="fake")

    async def ainvoke(self, messages, *args, **kwargs):
        calls = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": "add", "arguments": json.dumps(arguments)},
            }
            for call_id, arguments in current().next(len(messages))
        ]
        if calls:
            return ModelResponse(role="assistant", tool_calls=calls)
        return ModelResponse(role="assistant", content=FINAL)

    def invoke(self, *args, **kwargs):
        raise AssertionError("the bench has another way in")

    invoke_stream = ainvoke_stream = invoke

    def _parse_provider_response(self, response, **kwargs):
        return response

    def _parse_provider_response_delta(self, response):
        return response


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return current().add(a, b)


def make():
    return Agent(model=Fake(), tools=[add], telemetry=False)


async def run(agent):
    return (await agent.arun("go")).content
