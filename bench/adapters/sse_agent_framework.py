"""Microsoft Agent Framework behind its own AG-UI endpoint."""

import asyncio

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    ResponseStream,
    tool,
)
from agent_framework.ag_ui import add_agent_framework_fastapi_endpoint
from fastapi import FastAPI


class Fake(FunctionInvocationLayer, BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **kwargs):
        async def updates():
            contents = [content for message in messages for content in message.contents]
            if any(content.type == "text" and content.text == "hold" for content in contents):
                await asyncio.Event().wait()
            if any(content.type == "function_result" for content in contents):
                for i in range(20):
                    yield ChatResponseUpdate(
                        role="assistant", contents=[Content.from_text(f"word{i} ")], message_id="m"
                    )
            else:
                call = Content.from_function_call("c1", "add", arguments={"a": 1, "b": 2})
                yield ChatResponseUpdate(role="assistant", contents=[call], message_id="m0")

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates)


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


app = FastAPI()
add_agent_framework_fastapi_endpoint(
    app, Agent(client=Fake(), name="x", tools=[add]), "/", single_user=True
)
