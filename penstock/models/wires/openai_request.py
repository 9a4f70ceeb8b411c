"""Converts a request to the body of the OpenAI chat API.

Reasoning returns to the model that wrote it, in the field in which it came, in each reply with
calls: DeepSeek refuses such a reply without the field in all later requests, also of later tasks
(api-docs.deepseek.com, "Thinking Mode"), and servers of open models leave it to their template what
the model reads. So each request begins with the bytes of the one before. Proof:
tests/models/wires/test_openai_request.py.
"""

import json
from collections.abc import Iterator
from typing import Any

from penstock.core.call import ToolCall
from penstock.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from penstock.models.model import ModelCard, ModelRequest
from penstock.models.providers import ModelConfig
from penstock.models.wires.openai_card import DEEPSEEK, effort, is_openai, is_reasoning, longest
from penstock.models.wires.parts import chat_images, chat_parts
from penstock.models.wires.wire_names import WireNames, fitting_name

REASONING = "reasoning"
"""The kind of the part of a carry: the field in which a reply brought its reasoning."""
_REQUIRED_FIELDS = {DEEPSEEK: "reasoning_content"}
"""The field that a provider requires in each reply with calls."""


def to_wire(
    request: ModelRequest, config: ModelConfig, card: ModelCard, names: WireNames, *, provider: str
) -> bytes:
    """Return the body of the request. `provider` names the adapter and the host in carries."""
    at_home = is_openai(config)
    messages = _Messages(
        request,
        names,
        role="developer" if at_home and card.efforts else "system",
        own=(provider, card.family),
        field=_REQUIRED_FIELDS.get(config.provider, ""),
    )
    body: dict[str, Any] = {
        "model": config.model,
        "messages": list(messages.wire()),
        "stream": True,
        "stream_options": {"include_usage": True},
        "stop": list(request.stop) or None,
        "seed": request.seed,
        "response_format": _format(request, card),
    }
    if at_home:
        body |= {
            "max_completion_tokens": longest(request.max_tokens, request.thinking, card),
            "prompt_cache_key": request.cache_key,
            "safety_identifier": request.user,
            "store": False,
        }
    elif config.provider == DEEPSEEK:  # it counts reasoning, as OpenAI does
        body["max_tokens"] = longest(request.max_tokens, request.thinking, card)
    else:
        body["max_tokens"] = request.max_tokens
    if not (at_home and is_reasoning(request.thinking, card)):
        body |= {"temperature": request.temperature, "top_p": request.top_p}
    if request.thinking is not None and card.efforts:
        body["reasoning_effort"] = effort(request.thinking, card)
    if tools := _tools(request, names):
        body["tools"] = tools
        body["tool_choice"] = _tool_choice(request, card, names)
        body["parallel_tool_calls"] = False if request.parallel_calls is False else None
    body.update({**config.extra, **request.extra})
    if request.closing:
        body["tool_choice"] = "none" if "tools" in body else None
    wire = {name: value for name, value in body.items() if value is not None}
    return json.dumps(wire, separators=(",", ":")).encode()


def _tools(request: ModelRequest, names: WireNames) -> list[dict[str, Any]]:
    return [
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


def _tool_choice(request: ModelRequest, card: ModelCard, names: WireNames) -> Any:
    """Return the choice; None for the usual one, which some servers do not know by its name."""
    wanted = request.tool_choice
    if wanted in {None, "auto"} or not (wanted == "none" or card.forced_tool_choice):
        return None
    if wanted in {"none", "required"}:
        return wanted
    return {"type": "function", "function": {"name": names.sent(wanted or "")}}


def _format(request: ModelRequest, card: ModelCard) -> dict[str, Any] | None:
    if request.output is None or not card.json_schema:
        return None
    name = fitting_name(request.output.name)
    wanted = {"name": name, "strict": True, "schema": dict(request.output.schema)}
    return {"type": "json_schema", "json_schema": wanted}


class _Messages:
    """Converts the messages. Replies with calls have their reasoning where it came."""

    def __init__(
        self,
        request: ModelRequest,
        names: WireNames,
        *,
        role: str,
        own: tuple[str, str],
        field: str,
    ) -> None:
        self._request = request
        self._names = names
        self._own = own
        self._role = role
        self._field = field
        """The field that replies have from here on, also those without reasoning."""

    def wire(self) -> Iterator[dict[str, Any]]:
        """Yield the messages, oldest first."""
        if self._request.system:
            yield {"role": self._role, "content": self._request.system}
        images: list[dict[str, Any]] = []
        for message in self._request.messages:
            if images and not isinstance(message, ToolMessage):
                yield {"role": "user", "content": images}
                images = []
            if (wire := self._message(message)) is not None:
                yield wire
            if isinstance(message, ToolMessage) and message.parts:
                images += chat_images(message)
        if images:
            yield {"role": "user", "content": images}

    def _message(self, message: Message) -> dict[str, Any] | None:
        match message:
            case UserMessage():
                return {"role": "user", "content": chat_parts(message) or message.content}
            case ToolMessage():
                call_id, text = message.call_id, message.content
                return {"role": "tool", "tool_call_id": call_id, "content": text}
            case AssistantMessage(calls=()):
                said = message.content
                return {"role": "assistant", "content": said} if said else None
            case AssistantMessage():
                wire = {
                    "role": "assistant",
                    "content": message.content or None,
                    "tool_calls": [self._call(each) for each in message.calls],
                }
                # A reply before the first reasoning was sent without a field, and stays so.
                self._field = (own := self._field_of(message)) or self._field
                if self._field:
                    wire[self._field] = message.reasoning if own else ""
                return wire

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": self._names.sent(call.name), "arguments": json.dumps(call.arguments)}
        return {"id": call.call_id, "type": "function", "function": function}

    def _field_of(self, message: AssistantMessage) -> str:
        """Return the field in which this model brought its reasoning; empty if it did not."""
        carry = message.carry
        if carry is None or (carry.provider, carry.family) != self._own or not carry.parts:
            return ""
        field: str = carry.parts[0].get("field", "")
        return field
