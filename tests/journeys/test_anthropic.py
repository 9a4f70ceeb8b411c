"""A thinking model of Anthropic over HTTP: what it sends stays in the log and in requests."""

import json

import pytest

from penstock.chat.requests import NewMessage
from penstock.chat.wire_forms import event_part
from penstock.core.clock import Moment
from penstock.core.errors import ConfigError, ModelError, ModelRefused, ModelUnavailable
from penstock.core.events.events import NoteEmitted, Record, ReplyReceived
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.core.messages import UserMessage
from penstock.core.task import TaskStatus
from penstock.models.configured import ConfiguredModel
from penstock.models.model import ModelRequest
from penstock.models.providers import ModelConfig
from penstock.models.resolve import ModelRegistry
from penstock.models.wires.anthropic import AnthropicModel
from penstock.testing.clock import settle
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.logs import events
from tests.kit.model_server import Canned, FakeServer, anthropic_reply, block, fake_server
from tests.kit.tools import Act

KEY = "sk-ant-secret"
SIGNATURE = "EqQBsigned"
REFUSED = "The model refused to answer."


def thought(signature: str = SIGNATURE) -> list[bytes]:
    piece = {"type": "thinking_delta", "thinking": "hm"}
    signed = {"type": "signature_delta", "signature": signature}
    return block(0, "thinking", piece, signed, thinking="", signature="")


def calling(call_id: str, signature: str = SIGNATURE, **given: int) -> Canned:
    call = block(1, "tool_use", id=call_id, name="look", input=given)
    return Canned(anthropic_reply(thought(signature), call, stop="tool_use"))


def saying(text: str) -> Canned:
    said = block(1, "text", {"type": "text_delta", "text": text}, text="")
    return Canned(anthropic_reply(thought(), said, stop="end_turn"))


def refusing(message: str, status: int = 400, kind: str = "invalid_request_error") -> Canned:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return Canned([json.dumps(body).encode()], status, "application/json")


def model(server: FakeServer, name: str = "claude-opus-5-5") -> AnthropicModel:
    config = ModelConfig(
        name="claude",
        provider="anthropic",
        model=name,
        base_url=server.url,
        api_key=KEY,
        key_env="KEY",
    )
    return AnthropicModel(config, Limits())


def kinds(body: dict[str, list[dict[str, list[dict[str, str]]]]]) -> list[list[str]]:
    return [[part["type"] for part in message["content"]] for message in body["messages"]]


async def test_thinking_stays_on_over_a_loop_of_calls() -> None:
    answers = [calling("toolu_1", n=1), calling("toolu_2", n=2), saying("Done."), saying("Hi.")]
    async with (
        fake_server(*answers) as server,
        memory_runtime(model=model(server), tools=[Act("look")]) as runtime,
    ):
        reply = await ask(runtime, "Go")
        assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "Done.")
        await ask(runtime, "Again", session=reply.session_id)
    loop = ["thinking", "tool_use"]
    assert kinds(server.bodies[2]) == [["text"], loop, ["tool_result"], loop, ["tool_result"]]
    assert kinds(server.bodies[3])[-2:] == [["thinking", "text"], ["text"]]
    assert "toolu_2" in json.dumps(server.bodies[2])
    assert "x-api-key: " + KEY in server.heads[0].lower()
    assert "anthropic-version: 2023-06-01" in server.heads[0].lower()
    assert "POST /v1/messages HTTP/1.1" in server.heads[0]


async def test_a_task_that_another_runtime_resumes_sends_the_same_bytes() -> None:
    place, hanging = MemoryStorage(limits=Limits(shutdown_seconds=0)), Canned(hang=True)
    async with fake_server(calling("toolu_1", n=1), hanging, saying("Done.")) as server:
        async with memory_runtime(model=model(server), tools=[Act("look")], place=place) as first:
            sent = await first.requests.send(NewMessage(content="Go"))
            while len(server.bodies) < 2:
                await settle()
        async with memory_runtime(model=model(server), tools=[Act("look")], place=place) as again:
            reply = await again.requests.wait(sent.task_id)
    assert reply
    assert reply.content == "Done."
    assert json.dumps(server.bodies[1]) == json.dumps(server.bodies[2])
    assert SIGNATURE in json.dumps(server.bodies[2])


async def test_a_refused_carry_is_left_out_for_good() -> None:
    refused = refusing("messages.1.content.0: Invalid `signature` in `thinking` block")
    answers = [calling("toolu_1"), refused, saying("Done."), saying("Hi.")]
    async with (
        fake_server(*answers) as server,
        memory_runtime(model=model(server), tools=[Act("look")]) as runtime,
    ):
        reply = await ask(runtime, "Go")
        await ask(runtime, "Again", session=reply.session_id)
        found = await events(runtime, reply.session_id)
    assert len(server.bodies) == 4
    assert kinds(server.bodies[1])[1] == ["thinking", "tool_use"]
    assert kinds(server.bodies[2])[1] == ["tool_use"]
    assert kinds(server.bodies[3])[1] == ["tool_use"]
    assert kinds(server.bodies[3])[3] == ["thinking", "text"]
    assert [each.event_type for each in found if isinstance(each, NoteEmitted)] == ["carry_dropped"]


async def test_a_server_that_refuses_every_request_is_asked_twice() -> None:
    refused = refusing("thinking blocks cannot be modified")
    async with (
        fake_server(calling("toolu_1"), refused, refused, refused) as server,
        memory_runtime(model=model(server), tools=[Act("look")]) as runtime,
    ):
        reply = await ask(runtime, "Go")
    assert reply.status is TaskStatus.FAILED
    assert len(server.bodies) == 3


async def test_a_carry_that_is_too_large_is_not_kept() -> None:
    answers = [calling("toolu_1", "x" * 2**20), saying("Done.")]
    async with (
        fake_server(*answers) as server,
        memory_runtime(model=model(server), tools=[Act("look")]) as runtime,
    ):
        reply = await ask(runtime, "Go")
        found = await events(runtime, reply.session_id)
    assert reply.content == "Done."
    assert kinds(server.bodies[1])[1] == ["tool_use"]
    notes = [each for each in found if isinstance(each, NoteEmitted)]
    assert [each.event_type for each in notes] == ["carry_too_large"]
    assert "262144" in (notes[0].message or "")


async def test_a_refused_message_is_not_read_again() -> None:
    refusal = Canned(anthropic_reply(stop="refusal"))
    async with (
        fake_server(refusal, saying("Hi.")) as server,
        memory_runtime(model=model(server)) as runtime,
    ):
        reply = await ask(runtime, "Something bad")
        await ask(runtime, "Hello", session=reply.session_id)
    assert (reply.content, reply.finish_reason) == (
        "The model refused to answer.",
        "content_filter",
    )
    assert [each["content"][0]["text"] for each in server.bodies[1]["messages"]] == ["Hello"]


async def test_no_event_that_people_read_has_a_carry() -> None:
    async with (
        fake_server(calling("toolu_1"), saying("Done.")) as server,
        memory_runtime(model=model(server), tools=[Act("look")]) as runtime,
    ):
        reply = await ask(runtime, "Go")
        found = await events(runtime, reply.session_id)
    replies = [each for each in found if isinstance(each, ReplyReceived)]
    assert all(each.carry is not None for each in replies)
    records = [Record(LogId("c"), 1, Moment(0), TaskId("t"), None, each) for each in replies]
    assert SIGNATURE not in json.dumps([event_part(each) for each in records])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusing("thinking signature"), ModelRefused),
        (refusing("no", 401, "authentication_error"), ModelRefused),
        (refusing("Your credit balance is too low"), ModelRefused),
        (refusing("no", 402, "billing_error"), ModelRefused),
        (refusing("no", 413, "request_too_large"), ModelRefused),
        (refusing("slow", 429, "rate_limit_error"), ModelUnavailable),
        (refusing("busy", 529, "overloaded_error"), ModelUnavailable),
        (Canned([b"no"], 500, "text/plain", {"x-should-retry": "false"}), ModelRefused),
        (Canned([b"no"], 400, "text/plain", {"x-should-retry": "true"}), ModelUnavailable),
        (Canned(anthropic_reply(stop=None)), ModelUnavailable),
    ],
)
async def test_failures(answer: Canned, error: type[ModelError]) -> None:
    async with fake_server(answer) as server:
        asked = model(server)
        with pytest.raises(ModelError) as caught:
            async for _ in asked.stream(ModelRequest(system="", messages=[UserMessage("hi")])):
                pass
        await asked.close()
    assert type(caught.value) is error


def test_names_of_anthropic_resolve_to_this_wire() -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        ModelRegistry().get("anthropic:claude-opus-5-5")
    found = ModelRegistry(keys={"ANTHROPIC_API_KEY": KEY}).get("anthropic:claude-opus-5-5-20260901")
    assert isinstance(found, ConfiguredModel)
    assert isinstance(found.model, AnthropicModel)
    assert (found.card.family, found.card.binds_thinking) == ("claude-opus-5-5", True)
