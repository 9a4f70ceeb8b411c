"""OpenAI Agents SDK, its loop."""

import json

from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from bench.kit.script import FINAL, current

DISTRIBUTION = "openai-agents"
META = {"persistence": "none"}
set_tracing_disabled(True)


class Fake(Model):
    async def get_response(self, system_instructions, input, *args, **kwargs):
        output = [
            ResponseFunctionToolCall(
                type="function_call", name="add", arguments=json.dumps(arguments), call_id=call_id
            )
            for call_id, arguments in current().next(len(input))
        ]
        if not output:
            text = ResponseOutputText(type="output_text", text=FINAL, annotations=[])
            output = [
                ResponseOutputMessage(
                    id="m", type="message", role="assistant", status="completed", content=[text]
                )
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise AssertionError("the bench has another way in")


@function_tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return current().add(a, b)


def make():
    return Agent(name="x", model=Fake(), tools=[add])


async def run(agent):
    result = await Runner.run(
        agent, "go", max_turns=100_000, run_config=RunConfig(tracing_disabled=True)
    )
    return result.final_output
