"""Requests to an OpenAI-compatible server."""

import json
from typing import Any

import pytest

from penstock.core.call import ToolCall
from penstock.core.ids import CallId
from penstock.core.messages import (
    AssistantMessage,
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    TextPart,
    ToolMessage,
    UserMessage,
)
from penstock.models.model import ModelRequest, ToolDefinition
from penstock.models.providers import ModelConfig
from penstock.models.wires.openai_request import to_wire
from penstock.models.wires.wire_names import WireNames

ADD = ToolDefinition(name="add", description="Add", parameters={"type": "object"})
CALL = ToolCall(CallId("tc_1"), "add", {"a": 1})
HISTORY: list[Message] = [
    UserMessage("1?"),
    AssistantMessage("", (CALL,)),
    ToolMessage(CallId("tc_1"), "add", "1"),
]


def wire(
    *messages: Message, base_url: str = "http://h/v1", model: str = "m", **more: Any
) -> dict[str, Any]:
    extra = more.pop("extra", {})
    config = ModelConfig(name="n", provider="p", model=model, base_url=base_url, extra=extra)
    request = ModelRequest(**{"system": "", "messages": messages, "tools": (ADD,), **more})
    parsed: dict[str, Any] = json.loads(to_wire(request, config, WireNames(request)))
    return parsed


def test_the_whole_body() -> None:
    assert wire(*HISTORY, system="Be brief.", temperature=0.1, max_tokens=9) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "1?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "tc_1",
                        "type": "function",
                        "function": {"name": "add", "arguments": '{"a": 1}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "tc_1", "content": "1"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
        "temperature": 0.1,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "Add",
                    "parameters": {"type": "object"},
                },
            }
        ],
    }


def test_closing_with_calls_in_the_history_sends_the_tools_and_forbids_them() -> None:
    """Some providers demand the tool list whenever the history holds tool calls."""
    body = wire(*HISTORY, closing=True, extra={"tool_choice": "required"})
    assert len(body["tools"]) == 1
    assert body.get("tool_choice", "none") == "none"
    assert wire(*HISTORY, closing=True)["tool_choice"] == "none"


def test_closing_without_calls_sends_no_tools() -> None:
    body = wire(UserMessage("hi"), closing=True)
    assert {"tools", "tool_choice"}.isdisjoint(body)


def test_an_empty_reply_is_omitted() -> None:
    assert len(wire(UserMessage("a"), AssistantMessage(""), UserMessage("b"))["messages"]) == 2


def test_arguments_that_were_no_json_go_back_as_an_empty_object() -> None:
    call = ToolCall(CallId("tc_1"), "add", {}, "{oops")
    sent = wire(AssistantMessage("", (call,)))["messages"][0]["tool_calls"][0]
    assert sent["function"]["arguments"] == "{}"


def test_half_a_character_is_survived() -> None:
    assert wire(UserMessage("\ud83d"))["messages"][0]["content"] == "\ud83d"


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("gpt-4.1", {"max_completion_tokens", "temperature"}),
        ("gpt-5.2", {"max_completion_tokens"}),
        ("o3", {"max_completion_tokens"}),
    ],
)
def test_openai_has_its_own_names(model: str, names: set[str]) -> None:
    body = wire(base_url="https://api.openai.com/v1", model=model, temperature=1, max_tokens=9)
    assert body.keys() & {"max_tokens", "max_completion_tokens", "temperature"} == names


def test_extra_members_are_added_and_null_removes() -> None:
    body = wire(extra={"seed": 1, "stream_options": None, "temperature": 0})
    assert (body["seed"], body["temperature"], "stream_options" in body) == (1, 0, False)


HOME = "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("level", "base_url", "model", "effort"),
    [
        (None, "http://h/v1", "m", None),
        ("off", "http://h/v1", "m", "none"),
        ("minimal", "http://h/v1", "m", "low"),
        ("medium", "http://h/v1", "m", "medium"),
        ("xhigh", "http://h/v1", "m", "high"),
        ("high", HOME, "gpt-4o", None),
        ("off", HOME, "o3", "low"),
        ("xhigh", HOME, "o4-mini", "high"),
        ("off", HOME, "gpt-5-mini", "minimal"),
        ("minimal", HOME, "gpt-5", "minimal"),
        ("off", HOME, "gpt-5.2", "none"),
        ("xhigh", HOME, "gpt-5.2", "xhigh"),
    ],
)
def test_a_level_of_thinking_is_an_effort_that_the_model_knows(
    level: str | None, base_url: str, model: str, effort: str | None
) -> None:
    body = wire(UserMessage("hi"), base_url=base_url, model=model, thinking=level)
    assert body.get("reasoning_effort") == effort


def test_an_entry_may_turn_the_effort_off() -> None:
    body = wire(UserMessage("hi"), thinking="high", extra={"reasoning_effort": None})
    assert "reasoning_effort" not in body


IMAGE = ImagePart(content=b"PNG", mime_type="image/png", width=1, height=1)


def test_the_parts_of_a_message_are_sent_in_their_order() -> None:
    parts = (
        IMAGE,
        DocumentPart(content=b"PDF", mime_type="application/pdf", name="a.pdf"),
        AudioPart(content=b"ID3", mime_type="audio/mpeg"),
        AudioPart(content=b"RIF", mime_type="audio/wav"),
        TextPart("What is this?"),
    )
    assert wire(UserMessage("What is this?", (), parts))["messages"] == [
        {
            "role": "user",
            "content": [
                {
                    "type": "image_url",
                    "image_url": {"url": "data:image/png;base64,UE5H", "detail": "auto"},
                },
                {
                    "type": "file",
                    "file": {
                        "filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,UERG",
                    },
                },
                {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
                {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
                {"type": "text", "text": "What is this?"},
            ],
        }
    ]


@pytest.mark.parametrize("after", [(), (UserMessage("And?"),)])
def test_images_of_results_follow_all_results_of_a_reply(after: tuple[Message, ...]) -> None:
    calls = (CALL, ToolCall(CallId("tc_2"), "add", {}))
    result = (TextPart("[image displayed above]"), IMAGE)
    sent = wire(
        AssistantMessage("", calls),
        ToolMessage(CallId("tc_1"), "add", "[image displayed above]", parts=result),
        ToolMessage(CallId("tc_2"), "add", "2"),
        *after,
    )["messages"]
    assert [each["role"] for each in sent] == ["assistant", "tool", "tool", "user"] + [
        "user" for _ in after
    ]
    assert sent[1]["content"] == "[image displayed above]"
    assert [each["type"] for each in sent[3]["content"]] == ["text", "image_url"]
    assert sent[3]["content"][0]["text"] == "[image of tc_1]"
