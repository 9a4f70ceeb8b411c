"""The adapter for Anthropic's Messages API, without an SDK, and for servers that copy it.

Guarantees that a reply counts as complete only after `message_stop`, that its size is bounded by
`Limits.reply_bytes`, and that any bytes lead to events or a ModelError. Unknown events, blocks and
deltas are ignored. Thinking is kept verbatim with its signature, in the order of the blocks: the
provider refuses the next request if a block is changed. A reply whose blocks cannot be repeated
faithfully has no carry. Proof: tests/models/wires/test_anthropic.py and
tests/journeys/test_anthropic.py.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace as replace_fields
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.errors import ModelError, ModelUnavailable
from penstock.core.limits import Limits
from penstock.core.messages import Carry, Usage
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    estimate,
    failure,
    with_price,
)
from penstock.models.providers import ModelConfig
from penstock.models.wires.anthropic_request import (
    NEWEST_VERSION,
    claude_card,
    to_wire,
    version_of,
)
from penstock.models.wires.carries import has_carries
from penstock.models.wires.http import Endpoint, Post, bearer, usable_key
from penstock.models.wires.sse import (
    ServerEvents,
    count_of,
    error_text,
    is_unpaid,
    parsed,
    refused,
    text_of,
)
from penstock.models.wires.wire_names import WireNames

log = logging.getLogger(__name__)

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_REFUSALS = ("invalid_request", "authentication", "permission", "not_found", "too_large", "billing")
_TEXT, _THINKING, _CALL = "text", "thinking", "tool_use"
_MEMBERS = {"thinking_delta": "thinking", "signature_delta": "signature"}


class _Block(Struct):
    """A content block that is being streamed."""

    kind: str
    start: dict[str, Any]
    call: int = -1
    chars: int = 0
    members: dict[str, list[str]] = field(default_factory=dict)
    """Pieces of members that stream."""
    has_input: bool = False

    def part(self) -> dict[str, Any] | None:
        """Return the block as a part of the carry."""
        if self.kind == _TEXT:
            return {"type": "text", "chars": self.chars} if self.chars else None
        if self.kind == _CALL:
            return {"type": "call", "index": self.call, "id": self.start.get("id")}
        whole = dict(self.start)
        for name, pieces in self.members.items():
            whole[name] = text_of(whole.get(name)) + "".join(pieces)
        return whole


class AnthropicStream:
    """Converts the bytes of one reply into events."""

    def __init__(self, reply_bytes: int) -> None:
        self.done = False
        """`message_stop` has arrived."""
        self.response_id = ""
        self.raw_reason = ""
        """The provider's stop reason; empty until it arrives."""
        self.refusal: str | None = None
        self.chars = 0
        """Characters of the reply so far, for an estimate of its tokens."""
        self._sse = ServerEvents(reply_bytes)
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._usage: dict[str, Any] = {}
        self._is_void = False
        """The blocks cannot be repeated as they were."""

    def feed(self, block: bytes) -> list[ModelEvent]:
        """Return the events that are complete with these bytes."""
        events: list[ModelEvent] = []
        for payload in self._sse.feed(block):
            self._take(payload, events)
        return events

    def end(self) -> list[ModelEvent]:
        """Return the last events. Raises ModelUnavailable for an incomplete reply."""
        events: list[ModelEvent] = []
        for payload in self._sse.end():
            self._take(payload, events)
        if not self.done:
            raise ModelUnavailable("the model's reply was cut off before its end")
        return events

    @property
    def finish_reason(self) -> str:
        """The reason for the `Finished` event."""
        reason = _REASONS.get(self.raw_reason)
        if reason is None:
            log.warning("a model of Anthropic stopped for the reason %r", self.raw_reason)
        return reason or ("tool_calls" if self._calls else "stop")

    @property
    def usage(self) -> Usage | None:
        """The tokens of the reply, as the server counts them; None if it reports none."""
        read, written = (
            count_of(self._usage, "input_tokens"),
            count_of(self._usage, "output_tokens"),
        )
        cached = count_of(self._usage, "cache_read_input_tokens")
        created = count_of(self._usage, "cache_creation_input_tokens")
        if not (read or written or cached or created):
            return None
        creation, details = (
            self._usage.get("cache_creation"),
            self._usage.get("output_tokens_details"),
        )
        long = min(count_of(creation, "ephemeral_1h_input_tokens"), created)
        return Usage(
            input_tokens=read + created + cached,
            output_tokens=written,
            cached_tokens=cached,
            cache_write_tokens=created - long,
            cache_write_long_tokens=long,
            reasoning_tokens=count_of(details, "thinking_tokens"),
        )

    @property
    def parts(self) -> tuple[dict[str, Any], ...] | None:
        """The parts of the carry; None if the reply has none."""
        if self._is_void or not self._blocks:
            return None
        parts = (self._blocks[index].part() for index in sorted(self._blocks))
        return tuple([part for part in parts if part is not None])

    def _take(self, payload: bytes, events: list[ModelEvent]) -> None:
        if not self.done and isinstance(event := parsed(payload), dict):
            self._read(event, events)

    def _read(self, event: dict[str, Any], events: list[ModelEvent]) -> None:
        match event.get("type"):
            case "content_block_delta":
                if isinstance(delta := event.get("delta"), dict):
                    self._delta(event.get("index"), delta, events)
            case "content_block_start":
                if isinstance(block := event.get("content_block"), dict):
                    self._start(event.get("index"), block, events)
            case "content_block_stop":
                self._stop(event.get("index"), events)
            case "message_delta":
                if isinstance(delta := event.get("delta"), dict):
                    self._ending(delta)
                self._add_usage(event.get("usage"))
            case "message_stop":
                self.done = True
            case kind:
                self._seldom(kind, event, events)

    def _seldom(self, kind: Any, event: dict[str, Any], events: list[ModelEvent]) -> None:
        if kind == "error":
            raise stream_error(event.get("error"))
        if kind == "message":
            self._whole(event, events)
        if kind == "message_start" and isinstance(message := event.get("message"), dict):
            self.response_id = text_of(message.get("id"))
            self._add_usage(message.get("usage"))

    def _whole(self, message: dict[str, Any], events: list[ModelEvent]) -> None:
        """Read a reply that was not streamed."""
        self.response_id = text_of(message.get("id"))
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                self._start(index, block, events)
                self._stop(index, events)
        self._ending(message)
        self._add_usage(message.get("usage"))
        self.done = True

    def _start(self, index: Any, start: dict[str, Any], events: list[ModelEvent]) -> None:
        if type(index) is not int or index in self._blocks:
            self._is_void = True  # doubled or out of place
            return
        block = self._blocks[index] = _Block(text_of(start.get("type")), start)
        if block.kind == _CALL:
            block.call = self._calls
            self._calls += 1
            self._is_void = self._is_void or not text_of(start.get("id"))
            name = text_of(start.get("name"))
            self.chars += len(name)
            block.has_input = bool(given := start.get("input"))
            arguments = msgspec.json.encode(given).decode() if given else ""
            events.append(CallDelta(block.call, name, arguments))
        elif block.kind == _TEXT:
            self._say(block, text_of(start.get("text")), events)
        elif block.kind == _THINKING:
            if thought := text_of(start.get("thinking")):
                self.chars += len(thought)
                events.append(ReasoningDelta(thought))
        elif block.kind == "server_tool_use" or block.kind.endswith("_tool_result"):
            log.warning("a model of Anthropic used a tool of its own, %r", start.get("name"))
            self._is_void = True

    def _delta(self, index: Any, delta: dict[str, Any], events: list[ModelEvent]) -> None:
        kind = delta.get("type")
        block = self._blocks.get(index) if type(index) is int else None
        if block is None:
            self._is_void = True
            if kind == "input_json_delta":
                raise ModelUnavailable("the model sent a piece of a call that it never began")
            block = _Block(_TEXT, {})
        if kind == "text_delta":
            self._say(block, text_of(delta.get("text")), events)
        elif kind == "input_json_delta":
            if (piece := text_of(delta.get("partial_json"))) and block.call >= 0:
                block.has_input = True
                self.chars += len(piece)
                events.append(CallDelta(block.call, "", piece))
        elif (member := _MEMBERS.get(text_of(kind))) is not None:
            piece = text_of(delta.get(member))
            block.members.setdefault(member, []).append(piece)
            if member == _THINKING and piece:
                self.chars += len(piece)
                events.append(ReasoningDelta(piece))
        elif block.kind not in {_TEXT, _CALL}:
            self._is_void = True  # an unknown delta of a block that has to be repeated verbatim

    def _stop(self, index: Any, events: list[ModelEvent]) -> None:
        block = self._blocks.get(index) if type(index) is int else None
        if block is not None and block.call >= 0 and not block.has_input:
            block.has_input = True
            events.append(CallDelta(block.call, "", "{}"))

    def _say(self, block: _Block, text: str, events: list[ModelEvent]) -> None:
        if text:
            block.chars += len(text)
            self.chars += len(text)
            events.append(TextDelta(text))

    def _ending(self, delta: dict[str, Any]) -> None:
        self.raw_reason = text_of(delta.get("stop_reason")) or self.raw_reason
        if self.raw_reason == "refusal":
            details = delta.get("stop_details")
            known = details if isinstance(details, dict) else {}
            why = text_of(known.get("explanation")) or text_of(known.get("category"))
            self.refusal = why or "The model refused to answer."

    def _add_usage(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._usage.update({name: value for name, value in usage.items() if value is not None})


def stream_error(error: Any) -> ModelError:
    """Return the ModelError for an error object inside a stream."""
    kind = text_of(error.get("type")) if isinstance(error, dict) else ""
    text = error_text(error)
    if is_unpaid(kind, text) or any(word in kind for word in _REFUSALS):
        return refused(text)
    is_throttled = kind == "rate_limit_error"
    return failure(HTTPStatus.TOO_MANY_REQUESTS, text) if is_throttled else ModelUnavailable(text)


class AnthropicModel:
    """A model of Anthropic, or of a server with its API."""

    def __init__(self, config: ModelConfig, limits: Limits) -> None:
        address = (config.base_url or "").rstrip("/").removesuffix("/v1")
        config = replace_fields(config, base_url=address)
        card = config.of_operator(claude_card(config.card))
        version = version_of(config)
        self.card = replace(card, sampling=card.sampling and version < NEWEST_VERSION)
        self._config = config
        self._limits = limits
        key = usable_key(config)
        own = bearer(config) if config.auth == "bearer" else {"x-api-key": key} if key else {}
        self._endpoint = Endpoint(
            config,
            limits,
            path="/v1/messages",
            headers={"anthropic-version": version, **own},
        )
        self._provider = f"anthropic@{self._endpoint.host}"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive."""
        reply, names = AnthropicStream(self._limits.reply_bytes), WireNames(request)
        body = to_wire(request, self._config, self.card, names, provider=self._provider)
        post = Post(body.content, body.headers, has_carry=has_carries(request))
        async with aclosing(self._endpoint.events(post, reply)) as events:
            async for event in events:
                yield names.meant(event)
        usage = reply.usage
        parts = reply.parts
        yield Finished(
            reply.finish_reason,
            estimate(self.card, request, reply.chars)
            if usage is None
            else with_price(self.card, usage),
            carry=Carry(self._provider, self.card.family, body.prefix, parts) if parts else None,
            response_id=reply.response_id,
            refusal=reply.refusal,
            raw_reason=reply.raw_reason,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()
