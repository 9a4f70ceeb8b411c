"""Converts a request to the body of Anthropic's Messages API.

Guarantees that consecutive requests of a conversation begin with the same bytes, apart from cache
points, and that signed thinking is sent back only where the provider accepts it.

How: each message becomes JSON once, and a SHA-256 runs over tools, system and messages in the order
of the wire. On a model that binds thinking to its prefix, a reply's blocks are sent only if the
hash before the reply is the one that was stored with it; otherwise its text and calls are sent, and
the provider's ids of its calls. Cache points are added after hashing: at the end of the system
prompt, at the last block, and at the block that was the last one of the previous request.

Properties of models are from pydantic-ai 2.68.0, `profiles/anthropic.py`. A model that is not in
its lists has no capability. Proof: tests/models/wires/test_anthropic_request.py.
"""

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from penstock.models.model import ModelCard, ModelRequest
from penstock.models.names import ALWAYS_ROOM, DEFAULT_ROOM, OFF, ROOM
from penstock.models.providers import ModelConfig
from penstock.models.wires.carries import carry_of
from penstock.models.wires.parts import anthropic_blocks
from penstock.models.wires.wire_names import WireNames

ADAPTIVE, ENABLED, DISABLED, BETWEEN_TOOLS = "adaptive", "enabled", "disabled", "between_tools"
"""Modes of thinking."""
NEWEST_VERSION = "2026-10-21"
"""The version of the API at its own address; it accepts no temperature."""
COMPATIBLE_VERSION = "2023-06-01"
USUAL_TOKENS = 8192
"""The longest reply if the request does not say."""
_LEAST_BUDGET = 1024
_ON = (ADAPTIVE, ENABLED)
_THOUGHTS = ("thinking", "redacted_thinking")
_DATE = re.compile(r"[-@]\d{8}$")
_FIVE = ("claude-fable-5", "claude-mythos-5", "claude-opus-5", "claude-sonnet-5")
_NEWEST = (*_FIVE, "claude-haiku-5-5")
_ADAPTIVE = (
    *_NEWEST,
    "claude-mythos-preview",
    "claude-sonnet-4-6",
    *(f"claude-opus-4-{minor}" for minor in (6, 7, 8)),
)
_MANUAL = (
    "claude-3-7",
    *(f"claude-{name}-4-5" for name in ("opus", "sonnet", "haiku")),
    "claude-opus-4-1",
    *(f"claude-{name}-4-{minor}" for name in ("opus", "sonnet") for minor in (0, 2)),
)
_SHORT = tuple(f"claude-{name}-4-5" for name in ("opus", "sonnet", "haiku"))
_ALWAYS_THINK = ("claude-fable-5", "claude-mythos-5", "claude-mythos-preview", "claude-opus-5-5")
_XHIGH = (*_NEWEST, "claude-opus-4-7", "claude-opus-4-8")
_BINDING = (
    *(f"claude-{name}" for name in ("fable-5-1", "fable-5-2", "mythos-5-2", "opus-5-5")),
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
)
_UNFORCED = (
    *(f"claude-{name}-5-{minor}" for name in ("fable", "mythos") for minor in (1, 2)),
    "claude-opus-5-5",
    "claude-sonnet-5-5",
)
_SCHEMAS = (*_ADAPTIVE, *_SHORT, "claude-opus-4-1")
_LONG_OUTPUT, _SHORT_OUTPUT = 128_000, 64_000


def version_of(config: ModelConfig) -> str:
    """Return the version of the API that a model is asked by."""
    return config.api_version or (NEWEST_VERSION if config.is_at_home else COMPATIBLE_VERSION)


class AnthropicBody(Struct, frozen=True):
    """A request in the form of the wire."""

    content: bytes
    prefix: str
    """The SHA-256 of tools, system and messages, for the carry of the reply."""
    headers: dict[str, str]


def to_wire(
    request: ModelRequest, config: ModelConfig, card: ModelCard, names: WireNames, *, provider: str
) -> AnthropicBody:
    """Return the body of the request. `provider` names the adapter and the host in carries."""
    tools = _tools(request, names)
    history = _History(request, card, names, provider)
    history.add_json(tools)
    history.add_json(request.system)
    for message in request.messages:
        history.add(message)
    messages = history.messages()
    prefix = history.digest()
    point = _cache_point(request.cache_ttl)
    _mark(messages, point)
    body: dict[str, Any] = {"model": config.model, "max_tokens": 0, "stream": True}
    if request.system:
        body["system"] = [{"type": "text", "text": request.system, "cache_control": point}]
    if tools:
        body["tools"] = tools
    body |= _thinking(
        request, card, body, can_think=not (history.lacks_thinking or request.has_previews)
    )
    if tools:
        body["tool_choice"] = _tool_choice(request, card, names, body)
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.user:
        body["metadata"] = {"user_id": request.user}
    # The newest version of the API refuses any temperature.
    can_sample = card.sampling and version_of(config) < NEWEST_VERSION
    if can_sample and body.get("thinking", {}).get("type") not in _ON:
        body |= {"temperature": request.temperature, "top_p": request.top_p}
    body["messages"] = messages
    extra = {**config.extra, **request.extra}
    body.update({name: value for name, value in extra.items() if name != "tool_choice"})
    if "tool_choice" in extra and not request.closing:
        body["tool_choice"] = extra["tool_choice"]
    wire = {name: value for name, value in body.items() if value is not None}
    is_manual = wire.get("thinking", {}).get("type") == ENABLED
    headers = {"anthropic-beta": "interleaved-thinking-2025-05-14"} if is_manual and tools else {}
    return AnthropicBody(_encoded(wire), prefix, headers)


class _History:
    """Builds the messages of the wire, with a hash over everything before each reply."""

    def __init__(
        self, request: ModelRequest, card: ModelCard, names: WireNames, provider: str
    ) -> None:
        self.lacks_thinking = False
        """A reply of the current task that asked for calls is sent without its thinking."""
        self._request = request
        self._card = card
        self._names = names
        self._provider = provider
        self._hash = sha256()
        self._done: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        """The message that may still grow: consecutive ones of a role become one."""
        self._ids: dict[str, str] = {}
        self._index = -1

    def add_json(self, value: Any) -> None:
        """Add a part before the messages to the hash."""
        self._hash.update(_encoded(value))

    def add(self, message: Message) -> None:
        """Add a message."""
        self._index += 1
        match message:
            case UserMessage():
                self._put("user", anthropic_blocks(message))
            case ToolMessage():
                self._put("user", [self._result(message)])
            case AssistantMessage():
                self._close()
                self._put("assistant", self._reply(message))

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages. Nothing can be added after."""
        self._close()
        return self._done

    def digest(self) -> str:
        """Return the hash of everything added so far."""
        return self._hash.hexdigest()

    def _put(self, role: str, blocks: list[dict[str, Any]]) -> None:
        if not blocks:
            return
        if self._open is not None and self._open["role"] == role:
            self._open["content"] += blocks
            return
        self._close()
        self._open = {"role": role, "content": blocks}

    def _close(self) -> None:
        if self._open is not None:
            self._hash.update(_encoded(self._open))
            self._done.append(self._open)
            self._open = None

    def _result(self, message: ToolMessage) -> dict[str, Any]:
        return {
            "type": "tool_result",
            "tool_use_id": self._ids.get(message.call_id, message.call_id),
            "is_error": not message.ok,
            "content": anthropic_blocks(message),
        }

    def _reply(self, message: AssistantMessage) -> list[dict[str, Any]]:
        carry = carry_of(message, self._provider, self._card.family)
        if carry is None:
            return self._without_carry(message)
        keeps = not self._card.binds_thinking or carry.prefix == self.digest()
        blocks: list[dict[str, Any]] = []
        at = 0
        for part in carry.parts:
            match part:
                case {"type": "text", "chars": int(chars)}:
                    blocks.append({"type": "text", "text": message.content[at : at + chars]})
                    at += chars
                case {"type": "call", "index": int(index), "id": str(call_id)}:
                    call = message.calls[index]
                    self._ids[call.call_id] = call_id
                    given = part.get("input", call.arguments)
                    blocks.append(self._call(call_id, call.name, given))
                case _ if keeps:
                    blocks.append(part)
        if not any(block["type"] in _THOUGHTS for block in blocks):
            self._note_missing(message)
        return blocks

    def _without_carry(self, message: AssistantMessage) -> list[dict[str, Any]]:
        self._note_missing(message)
        text = [{"type": "text", "text": message.content}] if message.content.strip() else []
        calls = [self._call(each.call_id, each.name, each.arguments) for each in message.calls]
        return [*text, *calls]

    def _note_missing(self, message: AssistantMessage) -> None:
        if message.calls and self._index >= self._request.loop_start:
            self.lacks_thinking = True

    def _call(self, call_id: str, name: str, given: Any) -> dict[str, Any]:
        return {
            "type": "tool_use",
            "id": call_id,
            "name": self._names.sent(name),
            "input": given,
        }


def _tools(request: ModelRequest, names: WireNames) -> list[dict[str, Any]]:
    return [
        {
            "name": names.sent(tool.name),
            "description": tool.description,
            "input_schema": dict(tool.parameters),
        }
        for tool in request.tools
    ]


def _cache_point(ttl: str | None) -> dict[str, str]:
    return {"type": "ephemeral"} if ttl in {None, "5m"} else {"type": "ephemeral", "ttl": ttl or ""}


def _mark(messages: Sequence[dict[str, Any]], point: dict[str, str]) -> None:
    """Set cache points at the last block, and at the one that was last in the previous request."""
    last = len(messages) - 1
    replies = [index for index, each in enumerate(messages) if each["role"] == "assistant"]
    before = replies[-1] - 1 if replies else -1
    for index in {last, before}:
        if index >= 0 and messages[index]["role"] == "user":
            messages[index]["content"][-1]["cache_control"] = point


def _thinking(
    request: ModelRequest, card: ModelCard, body: dict[str, Any], *, can_think: bool
) -> dict[str, Any]:
    """Return the members for a level of thinking, and the longest reply with the room for it."""
    modes, level = card.thinking_modes, request.thinking
    is_optional = DISABLED in modes or BETWEEN_TOOLS in modes
    settings: dict[str, Any] = {}
    config: dict[str, Any] = {}
    room = 0
    if level is None or not modes:
        room = DEFAULT_ROOM if card.thinks_by_default else 0
    elif level == OFF and is_optional:
        settings["thinking"] = {"type": BETWEEN_TOOLS if BETWEEN_TOOLS in modes else DISABLED}
    else:
        room = ROOM.get(level, DEFAULT_ROOM) or ALWAYS_ROOM
        if card.efforts:
            config["effort"] = _effort(level, card)
        if ADAPTIVE in modes:
            settings["thinking"] = {"type": ADAPTIVE, "display": "summarized"}
        elif not can_think:
            # All thinking of the current task or none: the provider refuses a part of it.
            settings["thinking"], room = {"type": DISABLED}, 0
    wanted = (request.max_tokens or USUAL_TOKENS) + room
    body["max_tokens"] = longest = min(wanted, card.max_output or wanted)
    if room and ENABLED in modes and level is not None:
        budget = min(room, longest - 1)
        if budget >= _LEAST_BUDGET:
            settings["thinking"] = {
                "type": ENABLED,
                "budget_tokens": budget,
                "display": "summarized",
            }
    if request.output is not None and card.json_schema:
        config["format"] = {"type": "json_schema", "schema": dict(request.output.schema)}
    return settings | ({"output_config": config} if config else {})


def _effort(level: str, card: ModelCard) -> str:
    """Return the word for a level, or the highest below it that the model accepts."""
    wanted = {OFF: ("low",), "minimal": ("low",), "xhigh": ("xhigh", "max", "high")}
    known = wanted.get(level, (level, "high"))
    return next((each for each in known if each in card.efforts), card.efforts[-1])


def _tool_choice(
    request: ModelRequest, card: ModelCard, names: WireNames, body: dict[str, Any]
) -> dict[str, Any]:
    if request.closing or request.tool_choice == "none":
        return {"type": "none"}
    choice: dict[str, Any] = {"type": "auto"}
    is_manual = body.get("thinking", {}).get("type") == ENABLED
    if request.tool_choice not in {None, "auto"} and card.forced_tool_choice and not is_manual:
        is_any = request.tool_choice == "required"
        name = names.sent(request.tool_choice or "")
        choice = {"type": "any"} if is_any else {"type": "tool", "name": name}
    if request.parallel_calls is False:
        choice["disable_parallel_tool_use"] = True
    return choice


def _encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def claude_card(card: ModelCard) -> ModelCard:
    """Return the card with what the model's name tells."""
    name = card.name
    is_adaptive, is_known = name.startswith(_ADAPTIVE), name.startswith((*_ADAPTIVE, *_MANUAL))
    modes: tuple[str, ...] = (ADAPTIVE,) if is_adaptive else (ENABLED,) if is_known else ()
    if name.startswith("claude-sonnet-5-5"):
        modes += (BETWEEN_TOOLS,)
    elif is_known and not name.startswith(_ALWAYS_THINK):
        modes += (DISABLED,)
    return replace(
        card,
        family=_DATE.sub("", name),
        api="anthropic",
        images=is_known,
        pdf=is_known,
        tool_images=is_known,
        json_schema=name.startswith(_SCHEMAS),
        forced_tool_choice=is_known and not name.startswith(_UNFORCED),
        binds_thinking=name.startswith(_BINDING),
        thinking_modes=modes,
        thinks_by_default=name.startswith((*_NEWEST, "claude-mythos-preview")),
        efforts=_efforts(name),
        max_output=_max_output(name),
        sampling=is_known and not name.startswith(_XHIGH),
    )


def _efforts(name: str) -> tuple[str, ...]:
    if not name.startswith((*_ADAPTIVE, "claude-opus-4-5")):
        return ()
    efforts: tuple[str, ...] = ("low", "medium", "high")
    if name.startswith(_XHIGH):
        efforts += ("xhigh",)
    return efforts if name.startswith("claude-opus-4-5") else (*efforts, "max")


def _max_output(name: str) -> int | None:
    if name.startswith(_SHORT):
        return _SHORT_OUTPUT
    return _LONG_OUTPUT if name.startswith(_ADAPTIVE) else None
