"""Client CPU of one streamed reply over loopback, on three wires: ours, SDKs, Pydantic AI."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelRequest as TheirRequest
from pydantic_ai.messages import UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition as TheirTool

from bench import harness
from bench.harness import Line
from bench.kit import calibrate
from bench.kit.model_wires import ARGUMENTS, CALLS, THOUGHTS, TOKENS, WORDS
from penstock.core.limits import Limits
from penstock.core.messages import UserMessage
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolDefinition,
    Waiting,
)
from penstock.models.providers import ModelConfig
from penstock.models.wires.anthropic import AnthropicModel
from penstock.models.wires.openai import OpenAIModel
from penstock.models.wires.responses import ResponsesModel

SECONDS = 3
MIN_SAMPLES = 12
PARAMETERS = {"type": "object", "properties": {"a": {"type": "string"}}}
PATHS = {"": "/v1/chat/completions", "responses_": "/v1/responses", "anthropic_": "/v1/messages"}
"""The beginning of a wire's figures, and its path. Figures of the chat wire have none."""

Heard = tuple[str, str, list[str], int]
"""Reasoning, text, arguments of each call, tokens written."""
Listen = Callable[[], Awaitable[Heard | None]]
"""Takes one reply; None if it was read without a look at it."""


def run() -> Line:
    """Measure the clients in turn.

    `stream_cpu_ms` is with events as fast as they come, `paced_cpu_ms` with a pause after each, so
    that it is read alone. `…_share` is ours over the SDK's; `parse_share` is the same without the
    cost of reading the same bytes, `stream_cpu_ms_read`.
    """
    command = [sys.executable, "-m", "bench.kit.model_wires"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        return asyncio.run(_measured(f"http://127.0.0.1:{port}"))
    finally:
        server.kill()
        server.wait()


async def _measured(url: str) -> Line:
    calibrate.expect(harness.quiet_ms())
    figures: Line = {}
    for wire in PATHS:
        for pace, place in (("stream", "/burst"), ("paced", "/paced")):
            key = f"{wire}{pace}_cpu_ms"
            for name, listen in _clients(wire, url + place).items():
                got = await calibrate.window(_sampled(listen), SECONDS, MIN_SAMPLES)
                figures[f"{key}{name}"] = got["min"][0] * 1e3
                figures["cal_ms"] = min(figures.get("cal_ms", got["cal_ms"]), got["cal_ms"])
            # Anthropic's SDK is meant to be used through `messages.stream()`.
            usual = figures.get(f"{key}_sdk_stream", figures[f"{key}_sdk"])
            figures[f"{wire}{pace}_share"] = figures[key] / usual
        read = figures[f"{wire}stream_cpu_ms_read"]
        ours, theirs = (figures[f"{wire}stream_cpu_ms{name}"] for name in ("", "_sdk"))
        figures[f"{wire}parse_share"] = (ours - read) / (theirs - read)
    harness.note_quiet(calibrate.best_ms())
    return harness.line("model", "penstock", figures | {"quiet_ms": calibrate.best_ms()})


def _sampled(listen: Listen) -> Callable[[], Awaitable[tuple[float]]]:
    wanted = ("hm " * THOUGHTS, "word " * WORDS, [ARGUMENTS] * CALLS, TOKENS)

    async def sample() -> tuple[float]:
        started = time.process_time()
        heard = await listen()
        took = time.process_time() - started
        assert heard is None or heard == wanted, heard
        return (took,)

    return sample


def _clients(wire: str, url: str) -> dict[str, Listen]:
    """Return the clients of a wire, by the ending of their figures."""
    read = _read(url + PATHS[wire])
    match wire:
        case "responses_":
            ours = ResponsesModel(_config(url + "/v1"), Limits())
            return {"_read": read, "": _native(ours), "_sdk": _sdk_responses(url + "/v1")}
        case "anthropic_":
            client = AsyncAnthropic(base_url=url, api_key="k", http_client=_http())
            return {
                "_read": read,
                "": _native(AnthropicModel(_config(url), Limits())),
                "_sdk": _sdk_anthropic(client),
                "_sdk_stream": _sdk_anthropic_stream(client),
            }
    return {
        "_read": read,
        "": _native(OpenAIModel(_config(url + "/v1"), Limits())),
        "_sdk": _sdk_chat(url + "/v1"),
        "_pydantic_ai": _pydantic_ai(url + "/v1"),
    }


def _config(url: str) -> ModelConfig:
    return ModelConfig(name="m", provider="openai", model="m", base_url=url, api_key="k")


def _http() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(trust_env=False)


def _read(url: str) -> Listen:
    client = _http()

    async def listen() -> None:
        async with client.stream("POST", url, content=b'{"stream":true}') as response:
            async for _ in response.aiter_raw():
                pass

    return listen


def _native(model: OpenAIModel | ResponsesModel | AnthropicModel) -> Listen:
    tools = [ToolDefinition(name="add", description="Add", parameters=PARAMETERS)]
    request = ModelRequest(system="", messages=[UserMessage("go")], tools=tools)

    async def listen() -> Heard:
        thoughts, text, calls, tokens = [], [], ["", ""], 0
        async for event in model.stream(request):
            match event:
                case TextDelta():
                    text.append(event.text)
                case ReasoningDelta():
                    thoughts.append(event.text)
                case CallDelta():
                    calls[event.index] += event.arguments
                case Finished():
                    tokens = event.usage.output_tokens
                case Waiting():
                    pass
        return "".join(thoughts), "".join(text), calls, tokens

    return listen


def _sdk_chat(url: str) -> Listen:
    client = AsyncOpenAI(base_url=url, api_key="k", http_client=_http())
    function = {"name": "add", "description": "Add", "parameters": PARAMETERS}
    asked: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": "go"}],
        "tools": [{"type": "function", "function": function}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }

    async def listen() -> Heard:
        thoughts, text, calls, tokens = [], [], ["", ""], 0
        async for chunk in await client.chat.completions.create(**asked):
            if chunk.usage:
                tokens = chunk.usage.completion_tokens
            for choice in chunk.choices:
                text.append(choice.delta.content or "")
                thoughts.append(getattr(choice.delta, "reasoning_content", None) or "")
                for call in choice.delta.tool_calls or ():
                    calls[call.index] += call.function.arguments or ""
        return "".join(thoughts), "".join(text), calls, tokens

    return listen


def _sdk_responses(url: str) -> Listen:
    client = AsyncOpenAI(base_url=url, api_key="k", http_client=_http())
    tool = {"type": "function", "name": "add", "parameters": PARAMETERS, "strict": False}
    asked: dict[str, Any] = {"model": "m", "input": "go", "tools": [tool], "stream": True}

    async def listen() -> Heard:
        thoughts, text, calls, tokens = [], [], ["", ""], 0
        async for event in await client.responses.create(**asked):
            match event.type:
                case "response.output_text.delta":
                    text.append(event.delta)
                case "response.reasoning_summary_text.delta":
                    thoughts.append(event.delta)
                case "response.function_call_arguments.delta":
                    calls[event.output_index - 2] += event.delta
                case "response.completed":
                    tokens = event.response.usage.output_tokens
        return "".join(thoughts), "".join(text), calls, tokens

    return listen


def _asked_of_anthropic() -> dict[str, Any]:
    return {
        "model": "m",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": "go"}],
        "tools": [{"name": "add", "description": "Add", "input_schema": PARAMETERS}],
    }


def _sdk_anthropic(client: AsyncAnthropic) -> Listen:
    asked = _asked_of_anthropic() | {"stream": True}

    async def listen() -> Heard:
        thoughts, text, calls, tokens = [], [], ["", ""], 0
        async for event in await client.messages.create(**asked):
            if event.type == "message_delta":
                tokens = event.usage.output_tokens
            if event.type != "content_block_delta":
                continue
            match event.delta.type:
                case "text_delta":
                    text.append(event.delta.text)
                case "thinking_delta":
                    thoughts.append(event.delta.thinking)
                case "input_json_delta":
                    calls[event.index - 2] += event.delta.partial_json
        return "".join(thoughts), "".join(text), calls, tokens

    return listen


def _sdk_anthropic_stream(client: AsyncAnthropic) -> Listen:
    asked = _asked_of_anthropic()

    async def listen() -> Heard:
        async with client.messages.stream(**asked) as stream:
            async for _ in stream:
                pass
            message = await stream.get_final_message()
        thought, said, *called = [each.to_dict() for each in message.content]
        calls = [json.dumps(each["input"], separators=(",", ":")) for each in called]
        tokens = message.usage.output_tokens
        return str(thought["thinking"]), str(said["text"]), calls, tokens

    return listen


def _pydantic_ai(url: str) -> Listen:
    provider = OpenAIProvider(base_url=url, api_key="k", http_client=_http())
    model = OpenAIChatModel("m", provider=provider)
    tool = TheirTool(name="add", description="Add", parameters_json_schema=PARAMETERS)
    parameters = ModelRequestParameters(function_tools=[tool])
    history = [TheirRequest([UserPromptPart("go")])]

    async def listen() -> Heard:
        async with model_request_stream(
            model, history, model_request_parameters=parameters
        ) as stream:
            async for _ in stream:
                pass
            reply = stream.get()
        calls = [part.args_as_json_str() for part in reply.tool_calls]
        return reply.thinking or "", reply.text or "", calls, reply.usage.output_tokens

    return listen


if __name__ == "__main__":
    print(json.dumps(run()))
