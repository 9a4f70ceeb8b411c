"""Requests to an OpenAI-compatible server."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from penstock.core.call import ToolCall
from penstock.core.ids import CallId
from penstock.core.messages import (
    AssistantMessage,
    AudioPart,
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
from penstock.models.wires.openai_card import chat_card
from penstock.models.wires.openai_request import to_wire
from penstock.models.wires.wire_names import WireNames

pytestmark = pytest.mark.conformance
HOME = "https://api.openai.com/v1"
PROVIDER = "openai@h"
PARAMS: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)
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
    extra, name = more.pop("extra", {}), more.pop("provider", "p")
    config = ModelConfig(name="n", provider=name, model=model, base_url=base_url, extra=extra)
    request = ModelRequest(**{"system": "", "messages": messages, "tools": (ADD,), **more})
    card, names = chat_card(config), WireNames(request)
    parsed: dict[str, Any] = json.loads(to_wire(request, config, card, names, provider=PROVIDER))
    return parsed


def wire_at_home(*messages: Message, **more: Any) -> dict[str, Any]:
    """Return the body of a request to OpenAI, as its own types read it."""
    body = wire(*messages, **{"base_url": HOME, "model": "gpt-5.2", **more})
    assert json.loads(PARAMS.dump_json(PARAMS.validate_python(body))) == body
    return body


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


@pytest.mark.parametrize("history", [HISTORY, (UserMessage("hi"),)])
def test_closing_sends_the_tools_and_forbids_them(history: Sequence[Message]) -> None:
    """They are the beginning of what is cached; with calls in the history some demand them."""
    body = wire(*history, closing=True, extra={"tool_choice": "required"})
    assert len(body["tools"]) == 1
    assert body["tool_choice"] == "none"
    assert wire(*history, closing=True)["tool_choice"] == "none"
    assert "tool_choice" not in wire(*history, closing=True, tools=())


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
        ("gpt-5", {"max_completion_tokens"}),
        ("gpt-5.2", {"max_completion_tokens", "temperature"}),
        ("o3", {"max_completion_tokens"}),
    ],
)
def test_openai_has_its_own_names(model: str, names: set[str]) -> None:
    body = wire_at_home(UserMessage("hi"), model=model, temperature=1, max_tokens=9)
    assert body.keys() & {"max_tokens", "max_completion_tokens", "temperature"} == names
    assert body["store"] is False


CACHE_KEY = "cedbcb9a3953036a9305984f16c4b848"
"""The first 32 digits of the SHA-256 of `clerk conv_1`."""


def test_what_only_openai_knows_is_sent_to_openai_alone() -> None:
    given = {"conversation": "clerk conv_1", "user": "u-1", "system": "Be brief."}
    body, other = wire_at_home(UserMessage("hi"), **given), wire(UserMessage("hi"), **given)
    assert (body["prompt_cache_key"], body["safety_identifier"]) == (CACHE_KEY, "u-1")
    assert body["messages"][0]["role"] == "developer"
    assert {"prompt_cache_key", "safety_identifier", "store"}.isdisjoint(other)
    assert other["messages"][0]["role"] == "system"
    old = wire_at_home(UserMessage("hi"), model="gpt-4.1", **given)
    assert old["messages"][0]["role"] == "system"


@pytest.mark.parametrize(
    ("thinking", "most"), [("high", 100 + 16_384), ("off", 100), (None, 100), ("low", 2148)]
)
def test_reasoning_gets_room_in_the_longest_reply(thinking: str | None, most: int) -> None:
    body = wire_at_home(UserMessage("hi"), thinking=thinking, max_tokens=100, temperature=0.5)
    assert body["max_completion_tokens"] == most
    assert ("temperature" in body) == (most == 100)
    assert wire(UserMessage("hi"), thinking=thinking, max_tokens=100)["max_tokens"] == 100


@pytest.mark.parametrize(
    ("provider", "is_sent"), [("llama.cpp", True), ("vllm", True), ("openai-compatible", False)]
)
def test_a_form_of_the_reply_is_sent_where_it_is_enforced(provider: str, is_sent: bool) -> None:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    wanted = OutputFormat(name="Ticket", schema=schema)
    odd = wire_at_home(UserMessage("hi"), output=OutputFormat(name="List[Ä]", schema=schema))
    assert odd["response_format"]["json_schema"]["name"] == "List_68796b93"
    form = {
        "type": "json_schema",
        "json_schema": {"name": "Ticket", "strict": True, "schema": schema},
    }
    assert wire_at_home(UserMessage("hi"), output=wanted)["response_format"] == form
    found = wire(UserMessage("hi"), output=wanted, provider=provider).get("response_format")
    assert found == (form if is_sent else None)


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        ("add", {"type": "function", "function": {"name": "add"}}),
    ],
)
def test_which_tool_the_model_calls(choice: str | None, sent: Any) -> None:
    body = wire_at_home(UserMessage("hi"), tool_choice=choice, parallel_calls=False)
    assert (body.get("tool_choice"), body["parallel_tool_calls"]) == (sent, False)
    other = wire(UserMessage("hi"), tool_choice=choice)
    assert other.get("tool_choice") == ("none" if choice == "none" else None)
    assert "parallel_tool_calls" not in other
    assert "parallel_tool_calls" not in wire(UserMessage("hi"), tools=(), parallel_calls=False)


def thinking(text: str, field: str = "reasoning_content", family: str = "m") -> AssistantMessage:
    carry = Carry(PROVIDER, family, "", ({"type": "reasoning", "field": field},))
    return AssistantMessage("", (CALL,), carry, text)


def test_reasoning_of_each_reply_with_calls_returns_in_its_field() -> None:
    """Also that of earlier tasks, so that a request begins with the bytes of the one before."""
    plain = AssistantMessage("", (CALL,))
    talk: list[Message] = [UserMessage("1?")]
    for reply in (plain, thinking("one"), plain, thinking("two"), AssistantMessage("So.")):
        talk += [reply, HISTORY[2] if reply.calls else UserMessage("And?")]
    sent = wire(*talk, thinking("three"), HISTORY[2], loop_start=10)["messages"]
    fields = [each.get("reasoning_content") for each in sent if each["role"] == "assistant"]
    assert fields == [None, "one", "", "two", None, "three"]
    for end in range(1, len(talk)):
        assert wire(*talk[:end])["messages"] == sent[:end]


@pytest.mark.parametrize(
    ("messages", "provider", "fields"),
    [
        ([thinking("a"), AssistantMessage("", (CALL,))], "p", ["a", ""]),
        ([thinking("a"), thinking("b", family="n")], "p", ["a", ""]),
        ([AssistantMessage("", (CALL,))], "p", [None]),
        ([AssistantMessage("", (CALL,))], "deepseek", [""]),
        ([thinking("a"), AssistantMessage("Done.")], "deepseek", ["a", None]),
    ],
    ids=[
        "a reply without reasoning",
        "of another model",
        "of a model that does not reason",
        "a provider that requires it",
        "text",
    ],
)
def test_replies_without_reasoning_have_the_field_where_it_is_required(
    messages: list[Message], provider: str, fields: list[str | None]
) -> None:
    sent = wire(*messages, provider=provider)["messages"]
    assert [each.get("reasoning_content") for each in sent] == fields


def test_the_field_has_the_name_in_which_it_came() -> None:
    sent = wire(thinking("a", "reasoning"), AssistantMessage("", (CALL,)))["messages"]
    assert [each.get("reasoning") for each in sent] == ["a", ""]


def test_extra_members_are_added_and_null_removes() -> None:
    body = wire(extra={"seed": 1, "stream_options": None, "temperature": 0})
    assert (body["seed"], body["temperature"], "stream_options" in body) == (1, 0, False)


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
