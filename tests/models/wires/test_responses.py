"""Requests to the Responses API: every body is one that the provider's own types allow."""

import itertools
import json
from typing import Any

import pytest

from penstock.core.call import ToolCall
from penstock.core.errors import ConfigError
from penstock.core.ids import CallId
from penstock.core.json_values.json_text import parse_json
from penstock.core.limits import Limits
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
from penstock.models.configured import ConfiguredModel
from penstock.models.model import ModelRequest, OutputFormat, ToolDefinition
from penstock.models.providers import ModelConfig
from penstock.models.resolve import ModelRegistry
from penstock.models.structured.fit import fit
from penstock.models.structured.fitted import Fitted, dialect_of
from penstock.models.wires.openai_card import openai_card
from penstock.models.wires.responses import ResponsesModel, to_wire
from penstock.models.wires.wire_names import WireNames
from tests.kit.fakes.provider import check_strict, event
from tests.kit.fakes.responses import PARAMS
from tests.kit.model_server import Canned, fake_server

pytestmark = pytest.mark.conformance
Json = dict[str, Any]
PROVIDER = "openai-responses@api.openai.com"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
ADD = ToolDefinition(name="add", description="Add", parameters={"type": "object", "properties": {}})
ENCRYPTED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
PARTS = (
    ENCRYPTED,
    {"type": "text", "chars": 12, "id": "msg_1", "phase": "commentary"},
    {"type": "call", "index": 0, "id": "call_1", "item": "fc_1", "arguments": '{ "a": 1}'},
)
CALLS = (ToolCall(CallId("tc_1"), "add", {"a": 1}),)
LOOP: list[Message] = [
    UserMessage("What is this?"),
    AssistantMessage("Let me look.", CALLS, Carry(PROVIDER, "gpt-6-sol", "", PARTS)),
    ToolMessage(CallId("tc_1"), "add", "3"),
]
WITHOUT_IDS = [
    {"role": "assistant", "content": "Let me look."},
    {"type": "function_call", "call_id": "tc_1", "name": "add", "arguments": '{"a":1}'},
    {"type": "function_call_output", "call_id": "tc_1", "output": "3"},
]


def wire(model: str = "gpt-6-sol", extra: Json | None = None, **fields: Any) -> Json:
    """Return the body of a request, as the types of the provider read it."""
    given = {"system": "", "messages": [UserMessage("hi")], **fields}
    request = ModelRequest(**given)
    config = ModelConfig(name="m", provider="openai-responses", model=model, extra=extra or {})
    card = openai_card(config.card, "openai-responses")
    body = parse_json(to_wire(request, config, card, WireNames(request), provider=PROVIDER))
    assert json.loads(PARAMS.dump_json(PARAMS.validate_python(body))) == body
    found: Json = body
    return found


FULL = parse_json(
    r"""{"model":"gpt-6-sol","stream":true,"store":false,"include":["reasoning.encrypted_content"],
    "instructions":"You are a clerk.","max_output_tokens":18432,
    "prompt_cache_key":"cedbcb9a3953036a9305984f16c4b848","safety_identifier":"u-9f2c","reasoning":{"effort":"high","summary":"auto"},
    "text":{"format":{"type":"json_schema","name":"Ticket","strict":true,"schema":{"type":"object",
    "properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"],
    "additionalProperties":false}}},
    "tools":[{"type":"function","name":"add","description":"Add",
    "parameters":{"type":"object","properties":{}},"strict":false}],"tool_choice":"auto",
    "parallel_tool_calls":false,
    "input":[{"type":"message","role":"user",
      "content":[{"type":"input_text","text":"What is this?"}]},
    {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA"},
    {"type":"message","role":"assistant","id":"msg_1","status":"completed","phase":"commentary",
      "content":[{"type":"output_text","text":"Let me look.","annotations":[]}]},
    {"type":"function_call","id":"fc_1","call_id":"call_1","name":"add",
      "arguments":"{ \"a\": 1}"},
    {"type":"function_call_output","call_id":"call_1","output":"3"}]}"""
)


def test_a_full_request() -> None:
    dialect = dialect_of(ResponsesModel(config(), Limits()).card)
    assert dialect is not None
    fitted = fit(SCHEMA, dialect)
    assert isinstance(fitted, Fitted)
    body = wire(
        system="You are a clerk.",
        messages=LOOP,
        tools=[ADD],
        max_tokens=2048,
        thinking="high",
        temperature=0.7,
        parallel_calls=False,
        conversation="clerk conv_1",
        user="u-9f2c",
        output=OutputFormat(name="Ticket", schema=fitted.schema),
    )
    assert body == FULL
    check_strict(body["text"]["format"]["schema"])


def config(**fields: Any) -> ModelConfig:
    given: Json = {"provider": "openai-responses", "base_url": "https://api.openai.com/v1"}
    return ModelConfig(name="m", model="gpt-6-sol", api_key="k", **(given | fields))


@pytest.mark.parametrize(
    "carry",
    [
        None,
        Carry("openai-responses@elsewhere", "gpt-6-sol", "", PARTS),
        Carry(PROVIDER, "gpt-5.6-sol", "", PARTS),
        Carry(PROVIDER, "gpt-6-sol", "", (PARTS[0], {"type": "text", "chars": 5}, PARTS[2])),
        Carry(PROVIDER, "gpt-6-sol", "", PARTS[:2]),
    ],
    ids=["none", "another host", "another model", "of another text", "without the call"],
)
def test_a_carry_that_does_not_fit_leaves_text_and_calls_without_ids(carry: Carry | None) -> None:
    messages = [LOOP[0], AssistantMessage("Let me look.", CALLS, carry), LOOP[2]]
    assert wire(messages=messages, tools=[ADD])["input"][1:] == WITHOUT_IDS


@pytest.mark.parametrize(
    ("part", "arguments"),
    [
        ({"input": {"a": 2}}, '{"a":2}'),
        ({"input": {"a": 2}, "arguments": '{ "a": 2}'}, '{ "a": 2}'),
        ({}, '{"a":1}'),
    ],
    ids=["edited", "edited, with blanks", "not edited"],
)
def test_arguments_that_a_hook_edited_are_those_of_the_model(part: Json, arguments: str) -> None:
    call = {"type": "call", "index": 0, "id": "call_1", **part}
    carry = Carry(PROVIDER, "gpt-6-sol", "", (PARTS[1], call))
    messages = [LOOP[0], AssistantMessage("Let me look.", CALLS, carry), LOOP[2]]
    assert wire(messages=messages, tools=[ADD])["input"][2]["arguments"] == arguments


async def test_reasoning_is_bound_to_the_organization() -> None:
    plain, named = (
        ResponsesModel(config(organization=name), Limits()).card.family for name in (None, "org-a")
    )
    assert (plain, named) == ("gpt-6-sol", "gpt-6-sol of org-a")


def test_files_are_sent_in_messages_and_in_results() -> None:
    image = ImagePart(content=b"\x89PNG", mime_type="image/png")
    paper = DocumentPart(content=b"%PDF", mime_type="application/pdf", name="a.pdf")
    asked = UserMessage("See", parts=(image, paper, TextPart("See")))
    shown = ToolMessage(CallId("tc_1"), "add", "3", parts=(TextPart("3"), image))
    found = wire(messages=[asked, AssistantMessage("", CALLS), shown], tools=[ADD])["input"]
    url = "data:image/png;base64,iVBORw=="
    picture = {"type": "input_image", "image_url": url, "detail": "auto"}
    document = {
        "type": "input_file",
        "filename": "a.pdf",
        "file_data": "data:application/pdf;base64,JVBERg==",
    }
    assert found[0]["content"] == [picture, document, {"type": "input_text", "text": "See"}]
    assert found[2]["output"] == [{"type": "input_text", "text": "3"}, picture]


def test_a_request_begins_with_the_bytes_of_the_one_before() -> None:
    texts = []
    for count in range(1, len(LOOP) + 1):
        body = wire(system="s", messages=LOOP[:count], tools=[ADD])
        texts.append(json.dumps([body["tools"], body["instructions"], body["input"]])[:-2])
    for before, after in itertools.pairwise(texts):
        assert after.startswith(before)


@pytest.mark.parametrize(
    ("model", "thinking", "body"),
    [
        ("gpt-6-sol", None, {}),
        ("gpt-6-sol", "off", {"reasoning": {"effort": "none"}, "temperature": 0.5}),
        ("gpt-6-sol", "minimal", {"reasoning": {"effort": "low", "summary": "auto"}}),
        ("gpt-6-sol", "xhigh", {"reasoning": {"effort": "xhigh", "summary": "auto"}}),
        ("gpt-6-astra", "off", {"reasoning": {"effort": "low"}}),
        ("gpt-5.4", None, {"temperature": 0.5}),
        ("gpt-5", "off", {"reasoning": {"effort": "minimal"}}),
        ("o3", "xhigh", {"reasoning": {"effort": "high", "summary": "auto"}}),
        ("gpt-4.1", "high", {"temperature": 0.5}),
        ("someones-model", "high", {"temperature": 0.5}),
    ],
)
def test_reasoning_and_sampling_exclude_each_other(
    model: str, thinking: str | None, body: Json
) -> None:
    found = wire(model, thinking=thinking, temperature=0.5)
    assert {name: found[name] for name in ("reasoning", "temperature") if name in found} == body
    assert ("include" in found) == (model.startswith(("gpt-5", "gpt-6", "o3")))


@pytest.mark.parametrize(
    ("model", "thinking", "most"),
    [
        ("gpt-6-sol", None, 100 + 16_384),
        ("gpt-6-sol", "off", 100),
        ("gpt-6-astra", "off", 100 + 2_048),
        ("gpt-6-sol", "low", 100 + 2_048),
        ("gpt-6-sol", "xhigh", 100 + 32_768),
        ("gpt-4.1", "high", 100),
    ],
)
def test_reasoning_gets_room_in_the_longest_reply(
    model: str, thinking: str | None, most: int
) -> None:
    assert wire(model, thinking=thinking, max_tokens=100)["max_output_tokens"] == most
    assert "max_output_tokens" not in wire(model, thinking=thinking)


@pytest.mark.parametrize(
    ("fields", "choice"),
    [
        ({}, "auto"),
        ({"tool_choice": "none"}, "none"),
        ({"tool_choice": "required"}, "required"),
        ({"tool_choice": "add"}, {"type": "function", "name": "add"}),
        ({"closing": True, "messages": LOOP}, "none"),
        ({"closing": True}, "none"),
        ({"closing": True, "tools": []}, None),
    ],
)
def test_which_tool_the_model_calls(fields: Json, choice: Any) -> None:
    body = wire(**{"tools": [ADD], **fields})
    assert body.get("tool_choice") == choice
    assert ("tools" in body) == (choice is not None)


def test_members_of_the_settings_win_and_null_removes_one() -> None:
    body = wire(extra={"service_tier": "flex", "include": None, "store": True})
    assert (body["service_tier"], "include" in body, body["store"]) == ("flex", False, True)


def test_names_resolve_to_this_wire() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        ModelRegistry().get("openai-responses:gpt-6-sol")
    with pytest.raises(ConfigError, match="needs `model`"):
        ModelRegistry([ModelConfig(name="m", provider="openai-responses")]).get("m")
    found = ModelRegistry(keys={"OPENAI_API_KEY": "k"}).get("openai-responses:gpt-6-sol-2026-09-01")
    assert isinstance(found, ConfiguredModel)
    assert isinstance(found.model, ResponsesModel)
    assert (found.card.family, found.card.api) == ("gpt-6-sol", "openai-responses")
    named = config(provider="openai", api="openai-responses")
    again = ModelRegistry([named]).get("m")
    assert isinstance(again, ConfiguredModel)
    assert isinstance(again.model, ResponsesModel)


def answering(transformations: Any) -> bytes:
    """Return a reply that says which reasoning the model did not read."""
    response = {"status": "completed", "output": [], "input_transformations": transformations}
    return event({"type": "response.completed", "response": response})


async def test_each_reason_for_withheld_reasoning_is_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is listed for each item of each request, in conversations without end."""
    prefix = {"type": "reasoning", "id": "rs_1", "action": "removed", "reason": "prefix_mismatch"}
    odd = [prefix, 7, {}, *({"reason": f"new {number}" * 50} for number in range(20))]
    answers = [[prefix] * 30, [prefix], None, [{**prefix, "reason": "turn_boundary"}], 7, odd, odd]
    async with fake_server(*(Canned([answering(each)]) for each in answers)) as server:
        way: Any = {"provider": "openai-responses", "base_url": server.url, "api_key": "sk"}
        model = ResponsesModel(ModelConfig(name="m", model="gpt-6-sol", **way), Limits())
        for _ in answers:
            async for _ in model.stream(ModelRequest(system="", messages=[UserMessage("Hi")])):
                pass
        await model.close()
    begin = "the model 'm' was not shown reasoning of earlier replies: "
    assert caplog.messages[:2] == [f"{begin}prefix_mismatch", f"{begin}turn_boundary"]
    assert len(caplog.messages) == 8
    assert max(map(len, caplog.messages)) < 150
