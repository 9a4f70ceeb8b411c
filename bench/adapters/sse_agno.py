"""Agno behind its own server, keeping nothing."""

import asyncio

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.os import AgentOS


class Fake(Model):
    def __init__(self):
        super().__init__(id="fake", name="fake", provider="fake")

    async def ainvoke_stream(self, messages, *args, **kwargs):
        if any(message.role == "user" and message.content == "hold" for message in messages):
            await asyncio.Event().wait()
        if any(message.role == "tool" for message in messages):
            for i in range(20):
                yield ModelResponse(role="assistant", content=f"word{i} ")
        else:
            call = {
                "id": "c1",
                "type": "function",
                "function": {"name": "add", "arguments": '{"a":1,"b":2}'},
                "index": 0,
            }
            yield ModelResponse(role="assistant", tool_calls=[call])

    def invoke(self, *args, **kwargs):
        raise AssertionError("the bench has another way in")

    ainvoke = invoke_stream = invoke

    def parse_tool_calls(self, calls):
        return calls

    def _parse_provider_response(self, response, **kwargs):
        return response

    def _parse_provider_response_delta(self, response):
        return response


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def serve(**store):
    agent = Agent(id="x", model=Fake(), tools=[add], telemetry=False, **store)
    return AgentOS(agents=[agent], telemetry=False).get_app()


app = serve()
