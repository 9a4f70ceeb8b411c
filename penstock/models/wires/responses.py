"""The adapter for OpenAI's Responses API, without an SDK, and for servers that copy it.

Guarantees that consecutive requests of a conversation begin with the same bytes, and that nothing
is left at the provider: `store` is false, so encrypted reasoning comes back with each reply and is
sent with the next request. A reasoning item is sent with the ids of what followed it or not at all;
a reply of another model is sent as plain text and calls. Proof:
tests/models/wires/test_responses.py and tests/journeys/test_responses.py.
"""

import json
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from penstock.core.limits import Limits
from penstock.core.messages import AssistantMessage, Carry, ToolMessage, UserMessage
from penstock.core.text import cut
from penstock.models.model import (
    Finished,
    ModelCard,
    ModelEvent,
    ModelRequest,
    estimate,
    with_price,
)
from penstock.models.names import OFF
from penstock.models.providers import ModelConfig
from penstock.models.wires.carries import carry_of, compact, has_carries
from penstock.models.wires.http import Endpoint, Post, bearer
from penstock.models.wires.openai_card import effort, is_reasoning, longest, responses_card
from penstock.models.wires.parts import response_parts
from penstock.models.wires.responses_stream import ResponseStream
from penstock.models.wires.sse import text_of
from penstock.models.wires.wire_names import WireNames, fitting_name

log = logging.getLogger(__name__)
_REASON_CHARS = 80
_MOST_REASONS = 8
"""Reasons of withheld reasoning of which a model logs warnings; providers have five."""


class ResponsesModel:
    """A model of OpenAI's Responses API, or of a server with that API."""

    def __init__(self, config: ModelConfig, limits: Limits) -> None:
        card = responses_card(config)
        # Encrypted reasoning is bound to the organization.
        family = f"{card.family} of {config.organization}" if config.organization else card.family
        self.card = replace(card, family=family)
        self._config = config
        self._limits = limits
        self._endpoint = Endpoint(config, limits, path="/responses", headers=bearer(config))
        self._provider = f"openai-responses@{self._endpoint.host}"
        self._has_warned = False
        self._withheld: set[str] = set()
        """The reasons for withheld reasoning of which a warning was logged."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive."""
        self._warn(request)
        reply, names = ResponseStream(self._limits.reply_bytes), WireNames(request)
        body = to_wire(request, self._config, self.card, names, provider=self._provider)
        post = Post(body, has_carry=has_carries(request))
        async with aclosing(self._endpoint.events(post, reply)) as events:
            async for event in events:
                yield names.meant(event)
        self._warn_of_withheld(reply.withheld)
        usage, parts = reply.usage, reply.parts
        yield Finished(
            reply.finish_reason,
            estimate(self.card, request, reply.chars)
            if usage is None
            else with_price(self.card, usage),
            carry=Carry(self._provider, self.card.family, "", parts) if parts else None,
            response_id=reply.response_id,
            refusal=reply.refusal,
            raw_reason=reply.raw_reason,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    def _warn(self, request: ModelRequest) -> None:
        """Warn once if the request asks for what the model refuses while it reasons."""
        is_sampled = request.temperature is not None or request.top_p is not None
        if is_sampled and not self._has_warned and is_reasoning(request.thinking, self.card):
            self._has_warned = True
            log.warning(
                "the model %r reasons, so it accepts no temperature and no top_p",
                self.card.model_id,
            )

    def _warn_of_withheld(self, transformations: Any) -> None:
        """Warn once for each reason by which the model did not read reasoning that was sent."""
        listed = transformations if isinstance(transformations, list) else ()
        reasons = {text_of(each.get("reason")) for each in listed if isinstance(each, dict)}
        new = sorted(reasons - self._withheld)[: _MOST_REASONS - len(self._withheld)]
        for reason in new:
            log.warning(
                "the model %r was not shown reasoning of earlier replies: %s",
                self.card.model_id,
                cut(reason, _REASON_CHARS) or "the provider gives no reason",
            )
        self._withheld.update(new)


def to_wire(
    request: ModelRequest, config: ModelConfig, card: ModelCard, names: WireNames, *, provider: str
) -> bytes:
    """Return the body of the request. `provider` names the adapter and the host in carries."""
    body: dict[str, Any] = {
        "model": config.model,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"] if card.efforts else None,
        "instructions": request.system or None,
        "max_output_tokens": longest(request.max_tokens, request.thinking, card),
        "prompt_cache_key": request.cache_key,
        "safety_identifier": request.user,
        "reasoning": _reasoning(request, card),
        "text": _text(request, card),
    }
    if not is_reasoning(request.thinking, card):
        body |= {"temperature": request.temperature, "top_p": request.top_p}
    if tools := _tools(request, names):
        body["tools"] = tools
        body["tool_choice"] = _tool_choice(request, card, names)
        body["parallel_tool_calls"] = False if request.parallel_calls is False else None
    body["input"] = list(_Items(request, card, names, provider).items())
    extra = {**config.extra, **request.extra}
    body.update({name: value for name, value in extra.items() if name != "tool_choice"})
    if "tool_choice" in extra and not request.closing:
        body["tool_choice"] = extra["tool_choice"]
    wire = {name: value for name, value in body.items() if value is not None}
    return json.dumps(wire, separators=(",", ":")).encode()


class _Items:
    """Converts the messages to items. Calls keep the ids that their carry has for them."""

    def __init__(
        self, request: ModelRequest, card: ModelCard, names: WireNames, provider: str
    ) -> None:
        self._request = request
        self._card = card
        self._names = names
        self._provider = provider
        self._ids: dict[str, str] = {}

    def items(self) -> Iterator[dict[str, Any]]:
        """Yield the items of the input, oldest first."""
        for message in self._request.messages:
            match message:
                case UserMessage():
                    text = [{"type": "input_text", "text": message.content}]
                    content = response_parts(message) or text
                    yield {"type": "message", "role": "user", "content": content}
                case ToolMessage():
                    yield {
                        "type": "function_call_output",
                        "call_id": self._ids.get(message.call_id, message.call_id),
                        "output": response_parts(message) or message.content,
                    }
                case AssistantMessage():
                    yield from self._reply(message)

    def _reply(self, message: AssistantMessage) -> Iterator[dict[str, Any]]:
        carry = carry_of(message, self._provider, self._card.family)
        if carry is None:
            if message.content:
                yield {"role": "assistant", "content": message.content}
            for call in message.calls:
                yield self._call(call.call_id, call.name, compact(call.arguments))
            return
        at = 0
        for part in carry.parts:
            match part:
                case {"type": "text", "chars": int(chars)}:
                    yield _said(message.content[at : at + chars], part)
                    at += chars
                case {"type": "call", "index": int(index), "id": str(call_id)}:
                    call = message.calls[index]
                    self._ids[call.call_id] = call_id
                    given = part.get("input", call.arguments)
                    arguments = part.get("arguments") or compact(given)
                    yield self._call(call_id, call.name, arguments, part.get("item"))
                case _:
                    yield part

    def _call(
        self, call_id: str, name: str, arguments: str, item: str | None = None
    ) -> dict[str, Any]:
        return {
            "type": "function_call",
            **({"id": item} if item else {}),
            "call_id": call_id,
            "name": self._names.sent(name),
            "arguments": arguments,
        }


def _said(text: str, part: dict[str, Any]) -> dict[str, Any]:
    phase = {"phase": part["phase"]} if part.get("phase") else {}
    if not part.get("id"):
        return {"role": "assistant", "content": text, **phase}
    return {
        "type": "message",
        "role": "assistant",
        "id": part["id"],
        "status": "completed",
        **phase,
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def _reasoning(request: ModelRequest, card: ModelCard) -> dict[str, str] | None:
    if request.thinking is None or not card.efforts:
        return None
    chosen = {"effort": effort(request.thinking, card)}
    if request.thinking == OFF:
        return chosen
    return {**chosen, "summary": "auto"}


def _text(request: ModelRequest, card: ModelCard) -> dict[str, Any] | None:
    if request.output is None or not card.json_schema:
        return None
    name = fitting_name(request.output.name)
    wanted = {"name": name, "schema": dict(request.output.schema), "strict": True}
    return {"format": {"type": "json_schema", **wanted}}


def _tools(request: ModelRequest, names: WireNames) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "name": names.sent(tool.name),
            "description": tool.description,
            "parameters": dict(tool.parameters),
            "strict": False,
        }
        for tool in request.tools
    ]


def _tool_choice(request: ModelRequest, card: ModelCard, names: WireNames) -> Any:
    wanted = "none" if request.closing else request.tool_choice or "auto"
    if wanted in {"auto", "none"}:
        return wanted
    if not card.forced_tool_choice:
        return "auto"
    return wanted if wanted == "required" else {"type": "function", "name": names.sent(wanted)}
