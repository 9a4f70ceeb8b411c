"""Converts a request to the body of the OpenAI chat API."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from penstock.models.model import ModelRequest
from penstock.models.providers import ModelConfig
from penstock.models.wires.parts import chat_images, chat_parts
from penstock.models.wires.wire_names import WireNames

_OWN_HOST = "api.openai.com"
_REASONS = re.compile(r"o\d|gpt-5")
"""OpenAI's models with reasoning: they refuse a temperature and accept a level of thinking."""
_DEFAULT_WORDS = {"off": "none", "minimal": "low", "xhigh": "high"}
"""The words of most servers for levels that they do not know."""
_EFFORTS: Sequence[tuple[re.Pattern[str], Mapping[str, str]]] = (
    (re.compile(r"o\d"), {"off": "low", "minimal": "low", "xhigh": "high"}),
    (re.compile(r"gpt-5\.\d"), {"off": "none", "minimal": "low"}),
    (re.compile(r"gpt-5"), {"off": "minimal", "xhigh": "high"}),
)
"""The same for OpenAI's models that do not know every level."""


def has_thinking(config: ModelConfig) -> bool:
    """Whether the model accepts a level of thinking, as far as its name tells."""
    at_home = _OWN_HOST in (config.base_url or "")
    return not at_home or _REASONS.match(config.model) is not None


def to_wire(request: ModelRequest, config: ModelConfig, names: WireNames) -> bytes:
    """Return the body of the request."""
    at_home = _OWN_HOST in (config.base_url or "")
    body: dict[str, Any] = {
        "model": config.model,
        "messages": list(_messages(request, names)),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens" if at_home else "max_tokens": request.max_tokens,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
        "seed": request.seed,
    }
    if not (at_home and _REASONS.match(config.model)):
        body["temperature"] = request.temperature
    if request.thinking is not None and has_thinking(config):
        body["reasoning_effort"] = _effort(request.thinking, config)
    if request.tools and not (request.closing and not _has_calls(request)):
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": names.sent(tool.name),
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in request.tools
        ]
        body["parallel_tool_calls"] = None if request.parallel_calls else False
    body.update(config.extra)
    if request.closing:
        body["tool_choice"] = "none" if "tools" in body else None
    wire = {name: value for name, value in body.items() if value is not None}
    return json.dumps(wire, separators=(",", ":")).encode()


def _messages(request: ModelRequest, names: WireNames) -> Iterator[dict[str, Any]]:
    if request.system:
        yield {"role": "system", "content": request.system}
    images: list[dict[str, Any]] = []
    for message in request.messages:
        if images and not isinstance(message, ToolMessage):
            yield {"role": "user", "content": images}
            images = []
        if (wire := _message(message, names)) is not None:
            yield wire
        if isinstance(message, ToolMessage) and message.parts:
            images += chat_images(message)
    if images:
        yield {"role": "user", "content": images}


def _message(message: Message, names: WireNames) -> dict[str, Any] | None:
    match message:
        case UserMessage():
            return {"role": "user", "content": chat_parts(message) or message.content}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
        case AssistantMessage(calls=()):
            return {"role": "assistant", "content": message.content} if message.content else None
        case AssistantMessage():
            calls = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {
                        "name": names.sent(call.name),
                        "arguments": json.dumps(call.arguments),
                    },
                }
                for call in message.calls
            ]
            return {"role": "assistant", "content": message.content or None, "tool_calls": calls}


def _effort(level: str, config: ModelConfig) -> str:
    if _OWN_HOST not in (config.base_url or ""):
        return _DEFAULT_WORDS.get(level, level)
    words = next((words for name, words in _EFFORTS if name.match(config.model)), _DEFAULT_WORDS)
    return words.get(level, level)


def _has_calls(request: ModelRequest) -> bool:
    return any(
        isinstance(message, AssistantMessage) and message.calls for message in request.messages
    )
