"""Google ADK, its loop, with its store in memory emptied after each run."""

import itertools
import logging

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from bench.kit.script import FINAL, current

logging.disable(logging.ERROR)
DISTRIBUTION = "google-adk"
META = {"persistence": "in-memory store, emptied after each run"}
_sessions = InMemorySessionService()
_ids = itertools.count()


class Fake(BaseLlm):
    model: str = "fake"

    async def generate_content_async(self, llm_request, stream=False):
        parts = [
            types.Part(function_call=types.FunctionCall(name="add", args=args, id=call_id))
            for call_id, args in current().next(len(llm_request.contents))
        ]
        yield LlmResponse(
            content=types.Content(role="model", parts=parts or [types.Part(text=FINAL)])
        )


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return current().add(a, b)


def make():
    return Runner(
        app_name="app",
        agent=LlmAgent(name="x", model=Fake(), tools=[add]),
        session_service=_sessions,
    )


async def run(runner):
    ids = {"user_id": "u", "session_id": str(next(_ids))}
    await _sessions.create_session(app_name="app", **ids)
    message = types.Content(role="user", parts=[types.Part(text="go")])
    last = None
    async for event in runner.run_async(
        **ids, new_message=message, run_config=RunConfig(max_llm_calls=0)
    ):
        last = event
    await _sessions.delete_session(app_name="app", **ids)
    return last.content.parts[0].text
