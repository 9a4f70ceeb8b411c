"""The fakes of providers refuse what the real ones refuse: else tests of wires show nothing."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.models.wires.anthropic import AnthropicStream
from tests.kit.fake_anthropic import ADAPTIVE, BINDING, MANUAL, MODELS, FakeAnthropic
from tests.kit.fakes.chat import FIELD, FakeChat
from tests.kit.fakes.provider import (
    Asked,
    FakeProvider,
    RefusedRequest,
    Said,
    Thought,
    replying,
)
from tests.kit.fakes.responses import FakeResponses

pytestmark = pytest.mark.conformance
Body = dict[str, Any]
Change = Callable[[Body], object]
HEAD = "POST /v1/{} HTTP/1.1\r\nauthorization: Bearer k\r\n\r\n"
OPEN: Body = {"type": "object", "properties": {"a": {"type": "string"}}}
THOUGHT, CALL, RESULT = 1, 2, 3
"""Places in the messages or items of a request."""


def responses() -> tuple[FakeResponses, Body]:
    """Return a fake, and a request with the reply that it gave to the one before."""
    fake = FakeResponses()
    asked: Body = {"type": "message", "role": "user"}
    asked["content"] = [{"type": "input_text", "text": "Go"}]
    body: Body = {"model": "gpt-6-sol", "stream": True, "store": False, "input": [asked]}
    answer = fake.events(replying(Thought(), Asked("look"), Thought(""), Said("Hm.")), body)
    thought, call, later, said = json.loads(answer[-1].partition(b"data: ")[2])["response"][
        "output"
    ]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "3"}
    del call["status"]
    return fake, {**body, "input": [asked, thought, call, result, later, said]}


def chat() -> tuple[FakeChat, Body]:
    """Return a fake of DeepSeek, and a request with a reply that thought before its call."""
    fake = FakeChat(is_deepseek=True)
    asked = {"role": "user", "content": "Go"}
    body: Body = {"model": "m", "stream": True, "messages": [asked]}
    fake.events(replying(Thought("hm"), Asked("look")), body)
    function = {"name": "look", "arguments": "{}"}
    call = {"id": "c_1", "type": "function", "function": function}
    reply = {"role": "assistant", "content": None, "tool_calls": [call], FIELD: "hm"}
    result = {"role": "tool", "tool_call_id": "c_1", "content": "3"}
    return fake, {**body, "messages": [asked, reply, result]}


def setting(**members: Any) -> Change:
    return lambda body: body.update(members)


def item(index: int, **members: Any) -> Change:
    return lambda body: body["input" if "input" in body else "messages"][index].update(members)


def without(*places: int) -> Change:
    def change(body: Body) -> None:
        name = "input" if "input" in body else "messages"
        body[name] = [each for at, each in enumerate(body[name]) if at not in places]

    return change


def swapped(body: Body) -> None:
    items = body["input"]
    items[THOUGHT], items[4] = items[4], items[THOUGHT]


FORM = {"type": "json_schema", "name": "x", "strict": True, "schema": OPEN}
CASES: list[tuple[Callable[[], tuple[FakeProvider, Body]], Change, str]] = [
    (responses, setting(store=True), "store must be false"),
    (responses, setting(previous_response_id="resp_1"), "Not to be used here"),
    (responses, setting(quite_new=1), "Unknown parameter: ['quite_new']"),
    (responses, item(0, quite_new=1), "Unknown parameter: ['input']"),
    (responses, setting(temperature=0.5), "'temperature' with reasoning"),
    (responses, setting(model="gpt-5.6-sol"), "could not be verified"),
    (responses, item(THOUGHT, encrypted_content="00000000"), "could not be verified"),
    (responses, item(THOUGHT, id="rs_9"), "Item with id 'rs_9' not found"),
    (responses, swapped, "required following item"),
    (responses, without(CALL, RESULT), "required following item"),
    (responses, without(THOUGHT), "required 'reasoning' item"),
    (responses, without(RESULT), "No tool output found for function call"),
    (responses, without(THOUGHT, CALL), "No tool call found"),
    (responses, setting(text={"format": FORM}), "'additionalProperties' is required"),
    (responses, setting(tool_choice="auto"), "Tool choice needs tools"),
    (chat, setting(quite_new=1), "Unknown parameter: ['quite_new']"),
    (chat, item(1, **{FIELD: "changed"}), "must be passed back"),
    (chat, item(1, **{FIELD: None}), "must be passed back"),
    (chat, without(2), "No result of ['c_1']"),
    (chat, without(1), "must be a response to a preceding message"),
    (chat, item(2, tool_call_id="c_2"), "must be a response to a preceding message"),
    (chat, item(2, content=[{"type": "text", "text": "3"}]), "Image URLs are only allowed"),
    (chat, setting(parallel_tool_calls=False), "only allowed when 'tools'"),
    (
        chat,
        setting(response_format={"type": "json_schema", "json_schema": FORM | {"name": "y"}}),
        "Unknown parameter: ['response_format']",
    ),
]


@pytest.mark.parametrize(("make", "change", "message"), CASES, ids=range(len(CASES)))
def test_a_wrong_request_is_refused(
    make: Callable[[], tuple[FakeProvider, Body]], change: Change, message: str
) -> None:
    fake, body = make()
    head = HEAD.format("responses" if "input" in body else "chat/completions")
    fake.check(body, head)
    change(body)
    with pytest.raises(RefusedRequest) as refused:
        fake.check(body, head)
    assert message in str(refused.value)


def test_another_organization_reads_no_reasoning() -> None:
    fake, body = responses()
    fake.organization = "org-2"
    with pytest.raises(RefusedRequest, match="could not be verified"):
        fake.check(body, HEAD.format("responses"))


def test_reasoning_of_an_earlier_task_must_be_passed_back() -> None:
    fake, body = chat()
    body["messages"].append({"role": "user", "content": "And?"})
    fake.check(body, HEAD.format("chat/completions"))
    del body["messages"][1][FIELD]
    with pytest.raises(RefusedRequest, match="must be passed back"):
        fake.check(body, HEAD.format("chat/completions"))


def claude(mode: str) -> tuple[FakeAnthropic, Body]:
    """Return a fake, and a request with the reply that it gave to the one before."""
    fake = FakeAnthropic(mode)
    asked = {"role": "user", "content": [{"type": "text", "text": "Go"}]}
    tool = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}
    thinking = {"type": "enabled", "budget_tokens": 1024} if mode == MANUAL else {"type": ADAPTIVE}
    body: Body = {
        "model": MODELS[mode],
        "max_tokens": 2048,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [tool],
        "thinking": thinking,
        "messages": [asked],
    }
    stream = AnthropicStream(2**20)
    for block in fake.answer(json.dumps(body).encode()).blocks:
        stream.feed(block)
    thought, redacted, said, called = stream.parts or ()
    text = {"type": "text", "text": "Let me look."}
    call = {"type": "tool_use", "id": called["id"], "name": "look", "input": {"n": 0}}
    assert said == {"type": "text", "chars": len("Let me look.")}
    reply = {"role": "assistant", "content": [thought, redacted, text, call]}
    result = {"type": "tool_result", "tool_use_id": called["id"], "content": "3"}
    return fake, {**body, "messages": [asked, reply, {"role": "user", "content": [result]}]}


def blocks(body: Body, message: int) -> list[Body]:
    content: list[Body] = body["messages"][message]["content"]
    return content


def moved(body: Body) -> None:
    content = blocks(body, 1)
    content[0], content[2] = content[2], content[0]


def point(message: int, index: int, ttl: str = "5m") -> Change:
    pointed = {"cache_control": {"type": "ephemeral", "ttl": ttl}}
    return lambda body: blocks(body, message)[index].update(pointed)


def pointed(body: Body) -> None:
    later = [{"type": "text", "text": str(number)} for number in range(5)]
    blocks(body, 2).extend(later)
    for index in range(1, 6):
        point(2, index)(body)


def late(body: Body) -> None:
    point(0, 0)(body)
    point(2, 0, "1h")(body)


def form(**schema: Any) -> Change:
    whole = {"type": "object", "properties": {}, **schema}
    return setting(output_config={"format": {"type": "json_schema", "schema": whole}})


ANY = [BINDING, MANUAL, ADAPTIVE]
OF_CLAUDE: list[tuple[list[str], Change, str]] = [
    (ANY, lambda body: blocks(body, 1)[0].update(thinking="other"), "bound to a different"),
    (ANY, lambda body: blocks(body, 1)[0].update(signature="x"), "bound to a different"),
    (ANY, lambda body: blocks(body, 1).pop(0), "cannot be modified"),
    (ANY, lambda body: blocks(body, 1).pop(1), "cannot be modified"),
    (ANY, moved, "cannot be modified"),
    ([BINDING], lambda body: body["system"][0].update(text="Be kind."), "bound to a different"),
    ([BINDING], lambda body: body["tools"][0].update(name="see"), "bound to a different"),
    ([BINDING], lambda body: blocks(body, 0)[0].update(text="Stop"), "bound to a different"),
    ([MANUAL], lambda body: blocks(body, 1).__delitem__(slice(2)), "Expected `thinking`"),
    (ANY, lambda body: blocks(body, 1)[2].update(text=""), "must be non-empty"),
    (ANY, setting(quite_new=1), "quite_new: Extra inputs are not permitted"),
    (ANY, lambda body: blocks(body, 2)[0].update(odd=1), "odd: Extra inputs"),
    (ANY, lambda body: body["messages"].insert(1, body["messages"][0]), "roles must alternate"),
    (ANY, lambda body: body["messages"].pop(), "the last call has no result"),
    (ANY, lambda body: blocks(body, 2)[0].update(tool_use_id="x"), "without `tool_result`"),
    (
        ANY,
        lambda body: blocks(body, 2).insert(0, {"type": "text", "text": "So:"}),
        "without `tool_result`",
    ),
    (ANY, pointed, "A maximum of 4 blocks with cache_control"),
    (ANY, late, "must not come after a ttl='5m' one"),
    (ANY, point(1, 0), "cache_control: Extra inputs"),
    ([MANUAL], setting(max_tokens=1024), "must be less than max_tokens"),
    (ANY, setting(temperature=0.5), "temperature: Extra inputs"),
    ([BINDING], setting(tool_choice={"type": "any"}), "does not support forced tool use"),
    ([MANUAL], setting(tool_choice={"type": "any"}), "may not be enabled when tool use is forced"),
    (ANY, form(), "additionalProperties must be false"),
    (
        ANY,
        form(additionalProperties=False, properties={"a": {"type": "string", "maxLength": 9}}),
        "keywords that are not supported",
    ),
]


@pytest.mark.parametrize(
    ("mode", "change", "message"),
    [(mode, change, message) for modes, change, message in OF_CLAUDE for mode in modes],
)
def test_a_wrong_request_to_claude_is_refused(mode: str, change: Change, message: str) -> None:
    fake, body = claude(mode)
    assert fake.answer(json.dumps(body).encode()).status == 200, fake.refusals
    change(body)
    assert fake.answer(json.dumps(body).encode()).status == 400
    assert message in fake.refusals[-1]


@pytest.mark.parametrize("mode", [MANUAL, ADAPTIVE])
def test_thinking_of_an_older_claude_is_bound_to_nothing_else(mode: str) -> None:
    fake, body = claude(mode)
    body["system"][0]["text"] = "Be kind."
    assert fake.answer(json.dumps(body).encode()).status == 200
