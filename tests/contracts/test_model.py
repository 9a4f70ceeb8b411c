"""The contract of every model: scripted, rule-based, on a fake server or on a real one.

The real one is the llama.cpp server on this machine, over each wire of ours and through Pydantic
AI, with a model whose words are noise and whose calls are forced by a grammar.
"""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

import pytest

from penstock.core.call import ToolCall
from penstock.core.errors import ModelError, ModelUnavailable
from penstock.core.ids import CallId
from penstock.core.late import late
from penstock.core.limits import Limits
from penstock.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from penstock.models.model import (
    CallDelta,
    Finished,
    Model,
    ModelEvent,
    ModelRequest,
    OutputFormat,
    ReasoningDelta,
    TextDelta,
    ToolDefinition,
)
from penstock.models.offline import OfflineModel
from penstock.models.providers import ModelConfig
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, fail, say, think
from penstock.models.wires.anthropic import AnthropicModel
from penstock.models.wires.openai import OpenAIModel
from penstock.models.wires.responses import ResponsesModel
from tests.kit.llama import llama_server
from tests.kit.model_server import (
    Canned,
    anthropic_reply,
    block,
    called,
    delta,
    events,
    fake_server,
)

pytestmark = pytest.mark.programs
PARAMETERS = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "minimum": 0, "maximum": 9},
        "b": {"type": "boolean"},
    },
    "required": ["a", "b"],
    "additionalProperties": False,
}
ADD = ToolDefinition(name="add", description="Add.", parameters=PARAMETERS)
TIMES = ToolDefinition(name="multiply", description="Multiply.", parameters=PARAMETERS)
ASKED = UserMessage("add a=1 b=true, then multiply a=2 b=false")
HISTORY: list[Message] = [
    ASKED,
    AssistantMessage("", (ToolCall(CallId("tc_1"), "add", {"a": 1, "b": True}),)),
    ToolMessage(CallId("tc_1"), "add", "3"),
]
SITUATIONS: dict[str, dict[str, Any]] = {
    "text": {"messages": [UserMessage("hello")], "max_tokens": 16},
    "calls": {"messages": [ASKED], "tools": [ADD, TIMES], "max_tokens": 200},
    "after": {"messages": HISTORY, "max_tokens": 16},
    "closing": {"messages": HISTORY, "tools": [ADD, TIMES], "closing": True, "max_tokens": 16},
    "form": {
        "messages": [UserMessage("hello")],
        "max_tokens": 200,
        "output": OutputFormat(name="Sum", schema=PARAMETERS),
    },
    "failure": {"messages": [UserMessage("hello")], "max_tokens": 16},
}
WIRES: dict[str, tuple[Callable[[ModelConfig, Limits], Model], Any]] = {
    "openai": (OpenAIModel, "required"),
    "responses": (ResponsesModel, "required"),
    "anthropic": (AnthropicModel, {"type": "any"}),
}
"""The adapter, and the choice of a tool that forces a call."""
REAL = {*WIRES, "pydantic-openai"}
ALL = ["scripted", "offline", "openai-fake", *WIRES, "pydantic-openai"]
CLOSING = [name for name in ALL if name != "anthropic"]
"""The Anthropic wire of this server has no way to offer tools and forbid them."""
FAILING = [name for name in ALL if name != "offline"]
"""Rules do not fail."""

Open = Callable[[str], AbstractAsyncContextManager[Model]]


@pytest.fixture(scope="session")
def peer() -> Iterator[str]:
    """The address of the llama.cpp server."""
    with llama_server() as url:
        yield url


@pytest.fixture(scope="session")
def sdk(peer: str) -> None:
    """The SDK, loaded before any test is timed: it takes a second."""
    asyncio.run(_adapted(peer, "text").close())


@pytest.fixture
def opening(request: pytest.FixtureRequest, name: str) -> Open:
    """Return what opens a model for a situation."""
    if name.startswith("pydantic"):
        request.getfixturevalue("sdk")
    if name in {"scripted", "offline", "openai-fake"}:
        return {"scripted": _scripted, "offline": _offline, "openai-fake": _faked}[name]
    url: str = request.getfixturevalue("peer")

    @asynccontextmanager
    async def real(situation: str) -> AsyncIterator[Model]:
        place = "http://127.0.0.1:1" if situation == "failure" else url
        if name in WIRES:
            make, forced = WIRES[name]
            extra = {"tool_choice": forced} if situation == "calls" else {}
            made: Model = make(_config("llama.cpp", f"{place}/v1", extra), Limits())
        else:
            made = _adapted(place, situation)
        yield made
        await made.close()

    return real


def every(names: list[str]) -> pytest.MarkDecorator:
    slow = pytest.mark.slow("another process answers, on cores that others use too")
    marked = [pytest.param(name, marks=slow if name in REAL else ()) for name in names]
    return pytest.mark.parametrize("name", marked)


@every(ALL)
async def test_a_reply_is_text_in_pieces_and_ends_with_finished(opening: Open) -> None:
    async with opening("text") as model:
        *pieces, last = await heard(model, "text")
    assert isinstance(last, Finished)
    assert last.reason in {"stop", "length"}
    assert [piece for piece in pieces if isinstance(piece, TextDelta)]
    for piece in pieces:
        assert isinstance(piece, TextDelta | ReasoningDelta)
        assert piece.text


@every(ALL)
async def test_a_reply_reports_its_usage(opening: Open) -> None:
    async with opening("text") as model:
        last = (await heard(model, "text"))[-1]
    assert isinstance(last, Finished)
    assert last.usage.input_tokens > 0
    assert last.usage.output_tokens > 0
    assert last.usage.model_calls == last.usage.tool_calls == 0


@every(ALL)
async def test_several_calls_come_in_one_reply(opening: Open) -> None:
    async with opening("calls") as model:
        found = await heard(model, "calls")
    calls = [event for event in found if isinstance(event, CallDelta)]
    names = [event.name for event in calls if event.name]
    indices = sorted({event.index for event in calls})
    assert len(indices) > 1
    assert indices == list(range(len(indices))), "calls are numbered from 0"
    assert len(names) == len(indices), "a name comes once"
    assert set(names) <= {"add", "multiply"}
    first = "".join(event.arguments for event in calls if event.index == 0)
    assert json.loads(first).keys() == {"a", "b"}
    assert isinstance(found[-1], Finished)
    assert found[-1].reason in {"tool_calls", "length"}


@every(ALL)
async def test_a_conversation_continues_after_results(opening: Open) -> None:
    async with opening("after") as model:
        found = await heard(model, "after")
    assert isinstance(found[-1], Finished)
    assert [event for event in found if isinstance(event, TextDelta)]


@every(["openai"])
async def test_a_reply_has_the_form_that_the_request_asks_for(opening: Open) -> None:
    async with opening("form") as model:
        found = await heard(model, "form")
    text = "".join(event.text for event in found if isinstance(event, TextDelta))
    assert json.loads(text).keys() == {"a", "b"}


@every(CLOSING)
async def test_a_closing_request_gets_no_calls(opening: Open) -> None:
    async with opening("closing") as model:
        found = await heard(model, "closing")
    assert [event for event in found if isinstance(event, TextDelta)]
    assert not [event for event in found if isinstance(event, CallDelta)]


@every(ALL)
async def test_a_reply_may_be_left_and_the_model_asked_again(opening: Open) -> None:
    async with opening("text") as model:
        async with aclosing(model.stream(asked("text"))) as stream:
            await anext(stream)
        assert isinstance((await heard(model, "text"))[-1], Finished)


@every(ALL)
async def test_two_replies_at_once_do_not_mix(opening: Open) -> None:
    async with opening("text") as model:
        both = await asyncio.gather(heard(model, "text"), heard(model, "text"))
    assert all(isinstance(found[-1], Finished) for found in both)
    assert all(sum(isinstance(event, Finished) for event in found) == 1 for found in both)


@every(FAILING)
async def test_a_transient_failure_is_unavailable_and_tried_once(opening: Open) -> None:
    async with opening("failure") as model:
        with pytest.raises(ModelUnavailable):
            await heard(model, "failure")


@every(ALL)
async def test_a_model_is_known_before_it_is_asked(opening: Open) -> None:
    async with opening("text") as model:
        assert isinstance(model, Model)
        assert model.card.model_id
        assert model.card.provider
        await model.close()


def asked(situation: str) -> ModelRequest:
    return ModelRequest(**{"system": "Be brief.", **SITUATIONS[situation]})


async def heard(model: Model, situation: str) -> list[ModelEvent]:
    return [event async for event in model.stream(asked(situation))]


ENDLESS = [
    ([b": ping\n"] * 400, ""),
    ([b"data: " + b"x" * 3_000], ""),
    ([gzip.compress(b"".join(events(*[delta(content="a" * 500)] * 40)))], "gzip"),
]
"""Bodies without an end, and how they are encoded."""
PLACES = {
    "openai": "penstock.models.wires.openai:OpenAIModel",
    "openai-responses": "penstock.models.wires.responses:ResponsesModel",
    "anthropic": "penstock.models.wires.anthropic:AnthropicModel",
    "openai-chat": "penstock.models.wires.pydantic_ai:PydanticAIModel",
}


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("wire", PLACES)
@pytest.mark.parametrize(("blocks", "encoding"), ENDLESS)
async def test_a_reply_without_an_end_is_refused(
    wire: str, blocks: list[bytes], encoding: str
) -> None:
    headers = {"content-encoding": encoding} if encoding else {}
    async with fake_server(Canned(blocks, hang=True, headers=headers)) as server:
        model: Model = late(PLACES[wire])(_config(wire, server.url, {}), Limits(reply_bytes=2_000))
        request = ModelRequest(system="", messages=[UserMessage("hello")], tools=())
        async with asyncio.timeout(5):
            with pytest.raises(ModelError, match=r"Limits\.reply_bytes"):
                _ = [event async for event in model.stream(request)]
        await model.close()


ODD = {
    "message": b'event: message_start\ndata: {"type":"message_start","message":"x"}\n\n',
    "delta": b'event: message_delta\ndata: {"type":"message_delta","delta":5,"usage":{}}\n\n',
    "text": b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":7}}\n\n',
}
"""Events whose members have other types than the API says."""


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("odd", ODD)
async def test_a_reply_of_other_types_may_be_asked_for_again(odd: str) -> None:
    """Libraries check little of what a provider sends."""
    hello = block(0, "text", {"type": "text_delta", "text": "Hello"}, text="")
    start, *rest = anthropic_reply(hello, stop="end_turn")
    blocks = [ODD[odd], *rest] if odd == "message" else [start, rest[0], ODD[odd]]
    async with fake_server(Canned(blocks)) as server:
        config = _config("anthropic", server.url.removesuffix("/v1"), {})
        model: Model = late(PLACES["openai-chat"])(config, Limits())
        request = ModelRequest(system="", messages=[UserMessage("hello")], tools=())
        with pytest.raises(ModelUnavailable, match="its reply cannot be read"):
            _ = [event async for event in model.stream(request)]
        await model.close()


@asynccontextmanager
async def _scripted(situation: str) -> AsyncIterator[Model]:
    replies: dict[str, ScriptedReply] = {
        "text": think("hm") + say("Hel", "lo"),
        "calls": call("add", a=1, b=True) + call("multiply", a=2, b=False),
        "after": say("3"),
        "closing": say("3"),
        "failure": fail(503),
    }
    yield ScriptedModel([replies[situation]] * 2)


@asynccontextmanager
async def _offline(situation: str) -> AsyncIterator[Model]:
    yield OfflineModel()


@asynccontextmanager
async def _faked(situation: str) -> AsyncIterator[Model]:
    text = events(delta(reasoning_content="hm"), delta(content="Hello"), delta("stop"))
    given = {"arguments": '{"a": 1, "b": true}'}
    answers = {
        "calls": Canned(
            events(
                called(index=0, id="x", name="add", **given),
                called("tool_calls", index=1, id="y", name="multiply", **given),
            )
        ),
        "failure": Canned([b"busy"], 503, "text/plain"),
    }
    async with fake_server(*[answers.get(situation, Canned(text))] * 2) as server:
        model = OpenAIModel(_config("openai", server.url, {}), Limits())
        yield model
        await model.close()


def _adapted(url: str, situation: str) -> Model:
    extra = {"tool_choice": "required"} if situation == "calls" else {}
    make = late("penstock.models.wires.pydantic_ai:PydanticAIModel")
    made: Model = make(_config("openai-chat", f"{url}/v1", extra), Limits())
    return made


def _config(provider: str, url: str, extra: dict[str, Any]) -> ModelConfig:
    return ModelConfig(
        name="mine",
        provider=provider,
        model="tiny",
        base_url=url,
        api_key="key",
        extra=extra,
        capabilities={"json_schema": True},
    )
