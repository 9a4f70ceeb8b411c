"""Pydantic AI behind its own AG-UI adapter."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.messages import ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.routing import Route


async def fake(messages, info):
    parts = [part for message in messages for part in message.parts]
    if any(isinstance(part, UserPromptPart) and part.content == "hold" for part in parts):
        await asyncio.Event().wait()
    if any(isinstance(part, ToolReturnPart) for part in parts):
        for i in range(20):
            yield f"word{i} "
    else:
        yield {0: DeltaToolCall(name="add", json_args='{"a":1,"b":2}', tool_call_id="c1")}


agent = Agent(FunctionModel(stream_function=fake))


@agent.tool_plain
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def run(request):
    return await AGUIAdapter.dispatch_request(request, agent=agent)


app = Starlette(routes=[Route("/", run, methods=["POST"])])
