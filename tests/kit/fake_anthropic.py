"""A server with Anthropic's Messages API that refuses what the provider refuses.

It signs thinking with an HMAC: over the text of the block, and in mode `binding` also over tools,
system prompt and earlier messages without cache points. In mode `manual`, calls of the current turn
need their thinking; in mode `adaptive` they do not. A reply follows from its request alone, so a
request that is repeated gets the same reply.
"""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsStreaming
from pydantic import TypeAdapter, ValidationError

from tests.kit.fakes.anthropic_forms import (
    blocks_in_order,
    message_problems,
    point_problems,
    schema_problems,
    unknown_members,
)
from tests.kit.fakes.provider import Delivery, Fault
from tests.kit.model_server import blocks_of

BINDING, MANUAL, ADAPTIVE = "binding", "manual", "adaptive"
MODELS = {
    BINDING: "claude-opus-5-5",
    MANUAL: "claude-sonnet-4-5-20250929",
    ADAPTIVE: "claude-opus-4-6",
}
KEY = b"the provider's own"
THOUGHTS = ("thinking", "redacted_thinking")
LOOK_BACK = 20
"""Blocks before a cache point in which the provider looks for an earlier one."""
SDK: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)
BOUND = "Invalid signature in thinking block. The block is bound to a different conversation"


class RequestRefused(Exception):
    """The server answers 400 with these words."""


@dataclass
class Answer:
    """An answer over HTTP; one that is not whole ends with its connection."""

    status: int
    kind: str
    blocks: list[bytes]
    headers: dict[str, str]
    is_whole: bool


@dataclass
class FakeAnthropic:
    """A server, what it received and what it refused."""

    mode: str
    calls: int = 5
    """How many calls a task makes before it has its answer."""
    asks: dict[int, tuple[str, str]] = field(default_factory=dict)
    """The tools and arguments of calls other than `look`, by the number of the reply."""
    answers_with: str = ""
    """The tool that ends a task when a note follows the results: first with wrong arguments."""
    refuses_carries: bool = False
    """Refuse every request with thinking."""
    window: int = 10**9
    """Characters of the messages that it reads at most."""
    delivery: Delivery = field(default_factory=Delivery)
    """How the bytes of replies arrive."""
    faults: list[Fault] = field(default_factory=list)
    """Errors to answer first, one for each request that is not refused."""
    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)
    """For each accepted request, the tokens that it read from the cache."""
    on_request: Callable[[int], None] = lambda number: None
    """Called with the number of each request, before its answer."""
    _kept: set[str] = field(default_factory=set)
    """The hashes of what precedes each cache point of accepted requests."""

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests, parsed."""
        return [json.loads(body) for body in self.bodies]

    def answer(self, body: bytes) -> Answer:
        """Return the answer to a request."""
        self.bodies.append(body)
        self.on_request(len(self.bodies))
        try:
            request = checked(json.loads(body))
            self._check_conversation(request)
        except RequestRefused as error:
            self.refusals.append(str(error))
            return _failing(Fault(400, str(error), "invalid_request_error"))
        if self.faults:
            return _failing(self.faults.pop(0))
        blocks, is_whole = self._stream(list(self._reply(request)))
        return Answer(200, "text/event-stream", blocks, {}, is_whole)

    def sign(self, thought: str, before: Any) -> str:
        """Return the signature of a block."""
        signed = thought + (json.dumps(bare(before)) if self.mode == BINDING else "")
        return hmac.new(KEY, signed.encode(), sha256).hexdigest()

    def _check_conversation(self, request: dict[str, Any]) -> None:
        messages = request["messages"]
        if len(json.dumps(messages)) > self.window:
            raise RequestRefused(f"prompt is too long: more than {self.window} characters")
        turn = max(
            index
            for index, message in enumerate(messages)
            if message["role"] == "user" and any(b["type"] == "text" for b in message["content"])
        )
        for index, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            thoughts = [block for block in message["content"] if block["type"] in THOUGHTS]
            calls = any(block["type"] == "tool_use" for block in message["content"])
            if thoughts and self.refuses_carries:
                raise RequestRefused(f"messages.{index}: Invalid `signature` in `thinking` block")
            if thoughts:
                self._check_thoughts(request, index, thoughts)
            elif calls and index > turn and self._thinks_manually(request):
                raise RequestRefused(
                    f"messages.{index}.content.0.type: Expected `thinking` or "
                    "`redacted_thinking`, but found `tool_use`"
                )

    def _thinks_manually(self, request: dict[str, Any]) -> bool:
        return self.mode == MANUAL and request.get("thinking", {}).get("type") == "enabled"

    def _check_thoughts(
        self, request: dict[str, Any], index: int, thoughts: list[dict[str, Any]]
    ) -> None:
        content = request["messages"][index]["content"]
        before = parts_before(request, index)
        if [block["type"] for block in thoughts] != list(THOUGHTS) or content[:2] != thoughts:
            raise RequestRefused(
                f"messages.{index}: `thinking` or `redacted_thinking` blocks in the latest "
                "assistant message cannot be modified"
            )
        thought, redacted = thoughts
        if thought["signature"] != self.sign(thought["thinking"], before):
            raise RequestRefused(f"messages.{index}.content.0: {BOUND}")
        if redacted["data"] != self.sign("redacted", before):
            raise RequestRefused(f"messages.{index}.content.1: {BOUND}")

    def _reply(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the events of the reply: thinking, then a call or the answer."""
        results = 0
        for message in reversed(request["messages"]):
            content = message["content"]
            results += sum(block["type"] == "tool_result" for block in content)
            if message["role"] == "user" and any(block["type"] == "text" for block in content):
                break
        number = sum(message["role"] == "assistant" for message in request["messages"])
        before = parts_before(request, len(request["messages"]))
        usage = {**self._usage(request), "output_tokens": 0}
        start = {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": []}
        yield {"type": "message_start", "message": {**start, "model": "m", "usage": usage}}
        thinks = request.get("thinking", {}).get("type") != "disabled"
        blocks = list(self._thoughts(number, before)) if thinks else []
        is_over = results >= self.calls or request.get("tool_choice", {}).get("type") == "none"
        if (ending := self._ending(request["messages"][-1]["content"])) is not None:
            blocks.append(_call(number, self.answers_with, ending))
        elif is_over or not request.get("tools"):
            blocks.append(_text(f"Answer {number}."))
        else:
            asked = self.asks.get(number, ("look", f'{{"n": {number}}}'))
            blocks += [_text("Let me look."), _call(number, *asked)]
        for index, (opened, deltas) in enumerate(blocks):
            yield {"type": "content_block_start", "index": index, "content_block": opened}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        reason = "tool_use" if blocks[-1][0]["type"] == "tool_use" else "end_turn"
        last = {"delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}
        yield {"type": "message_delta", **last}
        yield {"type": "message_stop"}

    def _ending(self, newest: list[dict[str, Any]]) -> str | None:
        """Return the arguments of the tool that ends the task; None if it does not end now."""
        kinds = {block["type"] for block in newest}
        if self.answers_with and kinds == {"tool_result", "text"}:
            return '{"title": 7}'
        is_wrong = self.answers_with and any(block.get("is_error") for block in newest)
        return '{"title": "fire"}' if is_wrong else None

    def _usage(self, request: dict[str, Any]) -> dict[str, int]:
        """Count what the request reads from the cache, what it writes to it, and the rest."""
        sizes, hashes, points, so_far = [0], [""], [], sha256()
        for number, block in enumerate(blocks_in_order(request), 1):
            text = json.dumps(bare(block))
            so_far.update(text.encode())
            sizes.append(sizes[-1] + len(text) // 4)
            hashes.append(so_far.hexdigest())
            points += [number] * ("cache_control" in block)
        found = (
            at
            for point in points
            for at in range(point, max(point - LOOK_BACK, 0), -1)
            if hashes[at] in self._kept
        )
        read, last = max(found, default=0), max(points, default=0)
        self._kept.update(hashes[point] for point in points)
        self.cached.append(sizes[read])
        return {
            "input_tokens": sizes[-1] - sizes[last],
            "cache_read_input_tokens": sizes[read],
            "cache_creation_input_tokens": sizes[last] - sizes[read],
        }

    def _thoughts(self, number: int, before: Any) -> Iterator[tuple[dict[str, Any], list[Any]]]:
        thought = f"hm {number}" if number % 2 else ""
        pieces = [{"type": "thinking_delta", "thinking": each} for each in thought]
        signature = self.sign(thought, before)
        signed = [{"type": "signature_delta", "signature": each} for each in halves(signature)]
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*pieces, *signed]
        yield {"type": "redacted_thinking", "data": self.sign("redacted", before)}, []

    def _stream(self, events: list[dict[str, Any]]) -> tuple[list[bytes], bool]:
        """Return the blocks of a reply, and whether it is whole."""
        way = self.delivery
        noise: list[dict[str, Any]] = [{"type": "ping"}] * way.pings
        noise += [{"type": "content_block_sparkle", "index": 0}] * way.unknown_events
        end = len(events) if way.cut_after is None else way.cut_after
        if way.error_after is not None:
            error = {"type": "overloaded_error", "message": "Overloaded"}
            events = [*events[: way.error_after], {"type": "error", "error": error}]
        blocks = [b"".join(blocks_of(*noise, each)) for each in events[:end]]
        if way.crlf:
            blocks = [each.replace(b"\n", b"\r\n") for each in blocks]
        if way.single_bytes:
            blocks = [bytes([byte]) for each in blocks for byte in each]
        return blocks, way.cut_after is None


def _failing(fault: Fault) -> Answer:
    error = {"type": "error", "error": {"type": fault.code, "message": fault.message}}
    blocks = [json.dumps(error).encode()]
    return Answer(fault.status, "application/json", blocks, fault.headers, is_whole=True)


def _text(text: str) -> tuple[dict[str, Any], list[Any]]:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": each} for each in text]


def _call(number: int, name: str, arguments: str) -> tuple[dict[str, Any], list[Any]]:
    opened = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
    return opened, [
        {"type": "input_json_delta", "partial_json": each} for each in halves(arguments)
    ]


def checked(request: dict[str, Any]) -> dict[str, Any]:
    """Return the request. Raises RequestRefused for a form that the provider refuses."""
    try:
        SDK.validate_python(request)
    except ValidationError as error:
        raise RequestRefused(str(error)) from None
    for problem in (*unknown_members(request), *_problems(request)):
        raise RequestRefused(problem)
    return request


def _problems(request: dict[str, Any]) -> Iterator[str]:
    thinking = request.get("thinking", {})
    is_forced = request.get("tool_choice", {}).get("type") in {"any", "tool"}
    if thinking.get("type") == "enabled":
        budget = thinking["budget_tokens"]
        if not 1024 <= budget < request["max_tokens"]:
            yield f"thinking.budget_tokens: {budget} must be less than max_tokens"
        if is_forced:
            yield "tool_choice: thinking may not be enabled when tool use is forced"
    if is_forced and request["model"] == MODELS[BINDING]:
        yield "tool_choice: this model does not support forced tool use"
    schema = request.get("output_config", {}).get("format", {}).get("schema")
    if schema is not None:
        yield from schema_problems(schema)
    yield from message_problems(request["messages"])
    yield from point_problems(request)


def parts_before(request: dict[str, Any], index: int) -> list[Any]:
    """Return what precedes a message, in the order of the wire."""
    return [request.get("tools"), request.get("system"), request["messages"][:index]]


def bare(value: Any) -> Any:
    """Return a value without cache points."""
    if isinstance(value, dict):
        return {name: bare(each) for name, each in value.items() if name != "cache_control"}
    return [bare(each) for each in value] if isinstance(value, list) else value


def halves(text: str) -> tuple[str, str]:
    """Return a text in two pieces."""
    return text[: len(text) // 2], text[len(text) // 2 :]


@asynccontextmanager
async def fake_anthropic(mode: str, **options: Any) -> AsyncIterator[FakeAnthropic]:
    """Serve the API on a port of this machine."""
    fake = FakeAnthropic(mode, **options)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = head.lower().splitlines()
                length = next(line for line in lines if line.startswith("content-length:"))
                body = await reader.readexactly(int(length.partition(":")[2]))
                answer = fake.answer(body)
                lines = [f"HTTP/1.1 {answer.status} Said", f"content-type: {answer.kind}"]
                lines += [f"{name}: {value}" for name, value in answer.headers.items()]
                writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
                for block in answer.blocks:
                    writer.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")
                    await writer.drain()
                if not answer.is_whole:
                    break
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        listening.close()
