"""Requests of the Messages API; the SDK's own types check each of them."""

import json
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from msgspec.structs import replace
from pydantic import TypeAdapter

from penstock.core.call import ToolCall
from penstock.core.ids import CallId
from penstock.core.messages import (
    AssistantMessage,
    Carry,
    DocumentPart,
    ImagePart,
    Message,
    TextPart,
    ToolMessage,
    UserMessage,
)
from penstock.models.model import ModelRequest, OutputFormat, ToolDefinition
from penstock.models.providers import ModelConfig
from penstock.models.wires.anthropic_request import AnthropicBody, claude_card, to_wire
from penstock.models.wires.wire_names import WireNames

pytestmark = pytest.mark.conformance
PROVIDER = "anthropic@h"
ADD = ToolDefinition(name="add", description="Add", parameters={"type": "object"})
CALL = ToolCall(CallId("tc_1"), "add", {"a": 1})
THOUGHT = {"type": "thinking", "thinking": "", "signature": "SIG"}
PARTS = (
    THOUGHT,
    {"type": "text", "chars": 4},
    {"type": "call", "index": 0, "id": "toolu_1"},
)
BINDING, MANUAL, ADAPTIVE = "claude-opus-5-5", "claude-sonnet-4-5-20250929", "claude-opus-4-6"
SDK: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)


def body(model: str = ADAPTIVE, *messages: Message, **more: Any) -> AnthropicBody:
    config = ModelConfig(
        name="n",
        provider="anthropic",
        model=model,
        base_url=more.pop("base_url", "http://h"),
        extra=more.pop("extra", {}),
    )
    fields = {"system": "Be brief.", "messages": messages or (UserMessage("1?"),), "tools": (ADD,)}
    request = ModelRequest(**{**fields, **more})
    card = claude_card(config.card)
    return to_wire(request, config, card, WireNames(request), provider=PROVIDER)


def wire(model: str = ADAPTIVE, *messages: Message, **more: Any) -> dict[str, Any]:
    content = body(model, *messages, **more).content
    SDK.validate_json(content)
    parsed: dict[str, Any] = json.loads(content)
    return parsed


def replied(model: str, before: list[Message], **carry: Any) -> list[Message]:
    """Return a conversation with a reply that thinks and calls, and the result of the call."""
    family = claude_card(ModelConfig(name="n", provider="anthropic", model=model).card).family
    prefix = body(model, *before).prefix
    kept = replace(Carry(PROVIDER, family, prefix, PARTS), **carry)
    reply = AssistantMessage("Look", (CALL,), kept)
    return [*before, reply, ToolMessage(CallId("tc_1"), "add", "3")]


def contents(messages: list[dict[str, Any]]) -> list[list[str]]:
    return [[block["type"] for block in message["content"]] for message in messages]


def test_the_whole_body() -> None:
    point = {"type": "ephemeral"}
    history = replied(ADAPTIVE, [UserMessage("1?")])
    assert wire(ADAPTIVE, *history, UserMessage("and now?"), thinking="high", max_tokens=9) == {
        "model": ADAPTIVE,
        "max_tokens": 16_393,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": point}],
        "tools": [{"name": "add", "description": "Add", "input_schema": {"type": "object"}}],
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "high"},
        "tool_choice": {"type": "auto"},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "1?", "cache_control": point}]},
            {
                "role": "assistant",
                "content": [
                    THOUGHT,
                    {"type": "text", "text": "Look"},
                    {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "is_error": False,
                        "content": [{"type": "text", "text": "3"}],
                    },
                    {"type": "text", "text": "and now?", "cache_control": point},
                ],
            },
        ],
    }


@pytest.mark.parametrize(
    ("model", "level", "thinking", "effort", "tokens"),
    [
        (ADAPTIVE, None, None, None, 8192),
        (ADAPTIVE, "off", "disabled", None, 8192),
        (ADAPTIVE, "low", "adaptive", "low", 10_240),
        (ADAPTIVE, "xhigh", "adaptive", "max", 40_960),
        (BINDING, None, None, None, 24_576),
        (BINDING, "off", "adaptive", "low", 10_240),
        (BINDING, "xhigh", "adaptive", "xhigh", 40_960),
        (BINDING, "max", "adaptive", "max", 40_960),
        ("claude-sonnet-5-5", "off", "between_tools", None, 8192),
        (MANUAL, None, None, None, 8192),
        (MANUAL, "minimal", "enabled", None, 9216),
        (MANUAL, "high", "enabled", None, 24_576),
        (MANUAL, "off", "disabled", None, 8192),
        ("claude-opus-4-5", "xhigh", "enabled", "high", 40_960),
        ("claude-opus-4-5", "max", "enabled", "high", 40_960),
        ("unknown", "high", None, None, 8192),
    ],
)
def test_levels_of_thinking(
    model: str, level: str | None, thinking: str | None, effort: str | None, tokens: int
) -> None:
    sent = wire(model, thinking=level)
    assert sent.get("thinking", {}).get("type") == thinking
    assert sent.get("output_config", {}).get("effort") == effort
    assert sent["max_tokens"] == tokens
    if thinking == "enabled":
        assert 1024 <= sent["thinking"]["budget_tokens"] < tokens


def test_manual_thinking_between_calls_needs_a_beta() -> None:
    assert body(MANUAL, thinking="low").headers
    assert not body(MANUAL, thinking="low", tools=()).headers
    assert not body(ADAPTIVE, thinking="low").headers


@pytest.mark.parametrize(
    ("carry", "ids"),
    [
        ({"provider": "anthropic@elsewhere"}, "tc_1"),
        ({"family": "claude-opus-4-8"}, "tc_1"),
        ({"parts": PARTS[:2]}, "tc_1"),
        ({"parts": ({"type": "text", "chars": 3}, PARTS[2])}, "tc_1"),
    ],
    ids=["another provider", "another family", "a call is missing", "another text"],
)
def test_a_carry_that_does_not_belong_to_the_reply_is_not_sent(
    carry: dict[str, Any], ids: str
) -> None:
    sent = wire(ADAPTIVE, *replied(ADAPTIVE, [UserMessage("1?")], **carry))
    assert contents(sent["messages"])[1] == ["text", "tool_use"]
    assert sent["messages"][1]["content"][1]["id"] == ids
    assert sent["messages"][2]["content"][0]["tool_use_id"] == ids


@pytest.mark.parametrize(("model", "is_sent"), [(BINDING, False), (ADAPTIVE, True)])
def test_thinking_bound_to_another_prompt_is_left_out_where_the_model_checks_it(
    model: str, is_sent: bool
) -> None:
    history = replied(model, [UserMessage("1?")])
    same, other = wire(model, *history), wire(model, *history, system="Be long.")
    assert contents(same["messages"])[1] == ["thinking", "text", "tool_use"]
    assert (contents(other["messages"])[1] == ["thinking", "text", "tool_use"]) is is_sent
    assert other["messages"][1]["content"][-1]["id"] == "toolu_1"


def test_a_manual_task_that_lost_its_thinking_continues_without() -> None:
    history = replied(MANUAL, [UserMessage("1?")], provider="other")
    assert wire(MANUAL, *history, thinking="low")["thinking"] == {"type": "disabled"}
    later = [*history, UserMessage("2?")]
    sent = wire(MANUAL, *later, thinking="low", loop_start=3)
    assert sent["thinking"]["type"] == "enabled"


def test_a_request_begins_with_the_bytes_of_the_one_before() -> None:
    history: list[Message] = [UserMessage("1?")]
    before = b""
    for turn in range(50):
        content = body(BINDING, *history).content
        bare = content.replace(b',"cache_control":{"type":"ephemeral"}', b"")
        assert content.count(b"cache_control") <= 4
        assert bare.startswith(before)
        before = bare.removesuffix(b"]}")
        history = [*replied(BINDING, history), UserMessage(f"{turn}?")]


def test_settings() -> None:
    sent = wire(
        ADAPTIVE,
        temperature=0.5,
        top_p=0.9,
        stop=("END",),
        user="u-1",
        parallel_calls=False,
        tool_choice="add",
        cache_ttl="1h",
        output=OutputFormat(name="T", schema={"type": "object"}),
    )
    assert (sent["temperature"], sent["top_p"], sent["stop_sequences"]) == (0.5, 0.9, ["END"])
    assert sent["metadata"] == {"user_id": "u-1"}
    assert sent["tool_choice"] == {
        "type": "tool",
        "name": "add",
        "disable_parallel_tool_use": True,
    }
    assert sent["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert sent["output_config"]["format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("model", "more"),
    [
        (ADAPTIVE, {"base_url": "https://api.anthropic.com"}),
        (BINDING, {}),
        (ADAPTIVE, {"thinking": "low"}),
        ("unknown", {}),
    ],
)
def test_a_temperature_is_left_out_where_it_is_refused(model: str, more: dict[str, Any]) -> None:
    assert "temperature" not in wire(model, temperature=0.7, **more)


def test_no_call_is_forced_where_that_is_refused() -> None:
    assert wire(BINDING, tool_choice="required")["tool_choice"] == {"type": "auto"}
    assert wire(ADAPTIVE, tool_choice="required")["tool_choice"] == {"type": "any"}
    manual = wire(MANUAL, tool_choice="required", thinking="low")
    assert manual["tool_choice"] == {"type": "auto"}


def test_a_closing_request_keeps_the_tools_and_forbids_them() -> None:
    """Also before the first call: the tools are the beginning of what is cached."""
    for history in (replied(ADAPTIVE, [UserMessage("1?")]), ()):
        sent = wire(ADAPTIVE, *history, closing=True)
        assert sent["tools"] == wire(ADAPTIVE, *history)["tools"]
        assert sent["tool_choice"] == {"type": "none"}


def test_parts_of_messages_and_of_results_are_blocks() -> None:
    image = ImagePart(content=b"PNG", mime_type="image/png")
    paper = DocumentPart(content=b"PDF", mime_type="application/pdf", name="a.pdf")
    asked = UserMessage("What?", (), (image, paper, TextPart("What?"), TextPart("")))
    shown = (TextPart("above"), image)
    history: list[Message] = [
        asked,
        AssistantMessage("", (CALL,)),
        ToolMessage(CallId("tc_1"), "add", "above", parts=shown),
    ]
    first, _, result = wire(ADAPTIVE, *history)["messages"]
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "UE5H"},
    }
    source = {"type": "base64", "media_type": "application/pdf", "data": "UERG"}
    assert first["content"] == [
        picture,
        {"type": "document", "source": source, "title": "a.pdf"},
        {"type": "text", "text": "What?", "cache_control": {"type": "ephemeral"}},
    ]
    assert result["content"][0]["content"] == [{"type": "text", "text": "above"}, picture]
