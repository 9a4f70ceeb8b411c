"""A server that sends exactly the given bytes, for adapters of model providers."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

STREAM = "text/event-stream"
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


@dataclass(slots=True)
class Canned:
    """One answer: a status, headers, and blocks of the body, each sent alone."""

    blocks: Iterable[bytes] = ()
    status: int = 200
    kind: str = STREAM
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    """Close the connection before the end of the body."""
    hang: bool = False
    """Send nothing more and keep the connection."""
    silent: bool = False
    """Close the connection without any answer."""
    drop_later: bool = False
    """Close the connection when the next request comes on it."""


@dataclass(slots=True)
class FakeServer:
    """What is asked, and what will be answered."""

    url: str = ""
    answers: list[Canned] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    connections: int = 0
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """The client closed a connection on which an answer was hanging."""


def events(*chunks: Any, done: bool = True) -> list[bytes]:
    """Return chunks as server-sent events, one block each; text is sent unchanged."""
    lines = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    return [f"data: {line}\n\n".encode() for line in [*lines, *(["[DONE]"] if done else [])]]


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return one chunk of the chat wire."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def called(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a chunk with one delta of a call; `name` and `arguments` go where they belong."""
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return delta(finish, tool_calls=[{**fields, "function": function}])


def blocks_of(*chunks: dict[str, Any]) -> list[bytes]:
    """Return events of the Anthropic wire, one block each."""
    return [f"event: {chunk['type']}\ndata: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]


def block(index: int, kind: str, *deltas: dict[str, Any], **start: Any) -> list[bytes]:
    """Return one content block of the Anthropic wire: its start, its deltas, its end."""
    opened = {"type": kind, **start}
    return blocks_of(
        {"type": "content_block_start", "index": index, "content_block": opened},
        *({"type": "content_block_delta", "index": index, "delta": each} for each in deltas),
        {"type": "content_block_stop", "index": index},
    )


def anthropic_reply(
    *contents: list[bytes], stop: str | None, tokens: int = 1, model: str = "m"
) -> list[bytes]:
    """Return a reply of the Anthropic API; without a stop reason it is incomplete."""
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": model}
    usage = {"input_tokens": 7, "output_tokens": 0}
    start = {"type": "message_start", "message": {**message, "usage": usage}}
    end = {"delta": {"stop_reason": stop}, "usage": {"output_tokens": tokens}}
    ending = blocks_of({"type": "message_delta", **end}, {"type": "message_stop"})
    inner = [each for content in contents for each in content]
    return [*blocks_of(start), *inner, *(ending if stop else [])]


@asynccontextmanager
async def fake_server(*answers: Canned) -> AsyncIterator[FakeServer]:
    """Serve these answers, one a request, on a port of this machine."""
    server = FakeServer(answers=list(answers))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            await _serve(server, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()


def refused_name(body: dict[str, Any]) -> str:
    """Return why a provider refuses a request for the name of a tool in it; nothing if it takes it.

    The pattern is that of OpenAI and Anthropic, with Google's rule for the first character.
    """
    offered = [each.get("function", each)["name"] for each in body.get("tools") or ()]
    messages = body.get("messages") or ()
    calls = [each for message in messages for each in message.get("tool_calls") or ()]
    parts = [part for message in messages for part in _parts(message["content"])]
    used = [each["name"] for each in parts if each.get("type") == "tool_use"]
    names = [*offered, *(each["function"]["name"] for each in calls), *used]
    if len(set(offered)) < len(offered):
        return "tools: Tool names must be unique."
    wrong = [each for each in names if not NAME.fullmatch(each)]
    return f"{wrong[0]!r} does not match the pattern {NAME.pattern}" if wrong else ""


def _parts(content: Any) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else []


async def _serve(
    server: FakeServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    drop = False
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.lower().splitlines()
        length = next(line for line in lines if line.startswith("content-length:"))
        body = await reader.readexactly(int(length.partition(":")[2]))
        if drop:
            return
        server.heads.append(head)
        server.bodies.append(json.loads(body))
        if message := refused_name(server.bodies[-1]):
            refusal = json.dumps({"error": {"message": message, "type": "invalid_request_error"}})
            await _answer(Canned([refusal.encode()], 400, "application/json"), writer)
            continue
        answer = server.answers.pop(0)
        if answer.silent:
            return
        await _answer(answer, writer)
        if answer.hang:
            await reader.read()
            server.hung_up.set()
            return
        if answer.cut:
            return
        drop = answer.drop_later


async def _answer(answer: Canned, writer: asyncio.StreamWriter) -> None:
    headers = {"content-type": answer.kind, "transfer-encoding": "chunked", **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} Said", *(f"{k}: {v}" for k, v in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    for block in answer.blocks:
        writer.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")
        await writer.drain()
    if not (answer.cut or answer.hang):
        writer.write(b"0\r\n\r\n")
    await writer.drain()
