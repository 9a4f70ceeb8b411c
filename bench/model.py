"""Client CPU of one streamed reply over loopback: our adapter, the OpenAI SDK, Pydantic AI."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx2
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
from penstock.core.limits import Limits
from penstock.core.messages import UserMessage
from penstock.models.model import (
    CallDelta,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolDefinition,
)
from penstock.models.providers import ModelConfig
from penstock.models.wires.openai import OpenAIModel

WORDS = 200
THOUGHTS = 20
PIECES = 10
"""Deltas of the arguments of each of two calls."""
CALLS = 2
PAUSE_S = 0.0003
"""Between two events, when they are to arrive alone."""
SECONDS = 4
MIN_SAMPLES = 12
PARAMETERS = {"type": "object", "properties": {"a": {"type": "string"}}}

Heard = tuple[str, str, list[str], int]
"""Reasoning, text, arguments of each call, tokens written."""
Listen = Callable[[], Awaitable[Heard]]


def run() -> Line:
    """Measure the clients in turn.

    `stream_cpu_ms` is with events as fast as they come, `paced_cpu_ms` with a pause after each, so
    that it is read alone; `…_share` is ours over the SDK's.
    """
    server = subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE)
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
    for key, path in (("stream_cpu_ms", "/burst/v1"), ("paced_cpu_ms", "/paced/v1")):
        ours, client, theirs = _native(url + path), _sdk(url + path), _pydantic_ai(url + path)
        for name, listen in (("", ours), ("_openai", client), ("_pydantic_ai", theirs)):
            got = await calibrate.window(_sampled(listen), SECONDS, MIN_SAMPLES)
            figures[f"{key}{name}"] = got["min"][0] * 1e3
            figures["cal_ms"] = min(figures.get("cal_ms", got["cal_ms"]), got["cal_ms"])
        figures[f"{key.partition('_')[0]}_share"] = figures[key] / figures[f"{key}_openai"]
    harness.note_quiet(calibrate.best_ms())
    return harness.line("model", "penstock", figures | {"quiet_ms": calibrate.best_ms()})


def _sampled(listen: Listen) -> Callable[[], Awaitable[tuple[float]]]:
    async def sample() -> tuple[float]:
        started = time.process_time()
        heard = await listen()
        took = time.process_time() - started
        assert heard == ("hm " * THOUGHTS, "word " * WORDS, [_arguments()] * CALLS, 99), heard
        return (took,)

    return sample


def _native(url: str) -> Listen:
    model = OpenAIModel(
        ModelConfig(name="m", provider="openai", model="m", base_url=url, api_key="k"), Limits()
    )
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
                case _:
                    tokens = event.usage.output_tokens
        return "".join(thoughts), "".join(text), calls, tokens

    return listen


def _sdk(url: str) -> Listen:
    client = AsyncOpenAI(base_url=url, api_key="k", http_client=httpx2.AsyncClient(trust_env=False))
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


def _pydantic_ai(url: str) -> Listen:
    client = httpx2.AsyncClient(trust_env=False)
    model = OpenAIChatModel(
        "m", provider=OpenAIProvider(base_url=url, api_key="k", http_client=client)
    )
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


def _events() -> Iterator[bytes]:
    for _ in range(THOUGHTS):
        yield _event({"reasoning_content": "hm "})
    for _ in range(WORDS):
        yield _event({"content": "word "})
    for index in range(CALLS):
        function = {"name": "add", "arguments": ""}
        yield _event({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})
    size = len(_arguments()) // PIECES
    for start in range(0, len(_arguments()), size):
        for index in range(CALLS):
            piece = {"arguments": _arguments()[start : start + size]}
            yield _event({"tool_calls": [{"index": index, "function": piece}]})
    yield _event({}, finish="tool_calls")
    usage = {"prompt_tokens": 7, "completion_tokens": 99, "total_tokens": 106}
    yield _event(None, usage=usage)
    yield b"data: [DONE]\n\n"


def _arguments() -> str:
    return json.dumps({"a": "x" * 91}, separators=(",", ":"))


def _event(delta: Any, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return f"data: {json.dumps({**chunk, 'choices': choices, **more})}\n\n".encode()


async def _serve() -> None:
    blocks = [f"{len(event):x}\r\n".encode() + event + b"\r\n" for event in _events()]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
                await reader.readexactly(int(length))
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    b"transfer-encoding: chunked\r\n\r\n"
                )
                for block in blocks:
                    writer.write(block)
                    if b"/paced/" in head[:40]:
                        await asyncio.sleep(PAUSE_S)
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(_serve())
    else:
        print(json.dumps(run()))
