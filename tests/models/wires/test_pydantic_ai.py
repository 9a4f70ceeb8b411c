"""Other providers through Pydantic AI, against a server that sends what they send."""

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from penstock.core.call import ToolCall
from penstock.core.errors import (
    ConfigError,
    ContextTooLarge,
    ModelError,
    ModelRefused,
    ModelUnavailable,
)
from penstock.core.ids import CallId
from penstock.core.late import late
from penstock.core.limits import Limits
from penstock.core.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ToolMessage,
    Usage,
    UserMessage,
)
from penstock.models.configured import ConfiguredModel
from penstock.models.model import (
    CallDelta,
    Finished,
    Model,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolDefinition,
)
from penstock.models.prices import Prices
from penstock.models.providers import ModelConfig
from penstock.models.resolve import LazyModel, ModelRegistry
from penstock.program.opening import open as open_runtime
from tests.kit.model_server import (
    Canned,
    FakeServer,
    anthropic_reply,
    block,
    blocks_of,
    called,
    delta,
    events,
    fake_server,
)

pytestmark = pytest.mark.programs
KEY = "sk-very-secret"
ADD = ToolDefinition(name="add", description="Add", parameters={"type": "object"})
HELLO = block(0, "text", {"type": "text_delta", "text": "Hello"}, text="")
TOO_LONG = b'{"error": {"code": "context_length_exceeded", "message": "maximum context length"}}'
HISTORY: list[Message] = [
    UserMessage("1?"),
    AssistantMessage("so", (ToolCall(CallId("tc_1"), "add", {"a": 1}),)),
    ToolMessage(CallId("tc_1"), "add", "1"),
]


@pytest.fixture(scope="session", autouse=True)
def _loaded() -> None:
    """Load the libraries before any test is timed: they take two seconds."""
    for provider in ("anthropic", "openai-chat"):
        asyncio.run(_model(provider, "http://127.0.0.1:1").close())


def _model(provider: str, url: str, **config: Any) -> Model:
    make = late("penstock.models.wires.pydantic_ai:PydanticAIModel")
    address = url.removesuffix("/v1") if provider == "anthropic" else url
    usual = {"name": "mine", "provider": provider, "model": "m", "base_url": address}
    made: Model = make(ModelConfig(**{**usual, "api_key": KEY, **config}), Limits())
    return made


async def heard(
    server: FakeServer, provider: str, *history: Message, **more: Any
) -> list[ModelEvent]:
    config = more.pop("config", {})
    model = _model(provider, server.url, **config)
    messages = history or (UserMessage("hi"),)
    asked = ModelRequest(**{"system": "Be brief.", "messages": messages, "tools": [ADD], **more})
    try:
        return [event async for event in model.stream(asked)]
    finally:
        await model.close()


async def failure(provider: str, answer: Canned) -> ModelError:
    async with fake_server(answer) as server:
        with pytest.raises(ModelError) as caught:
            await heard(server, provider)
        assert len(server.bodies) <= 1
    assert KEY not in str(caught.value)
    return caught.value


async def test_a_reply_of_anthropic_streams() -> None:
    reply = anthropic_reply(
        block(0, "thinking", {"type": "thinking_delta", "thinking": "hm"}, thinking=""),
        block(1, "text", {"type": "text_delta", "text": "Hello"}, text=""),
        block(
            2,
            "tool_use",
            {"type": "input_json_delta", "partial_json": '{"a":'},
            {"type": "input_json_delta", "partial_json": "1}"},
            id="t1",
            name="add",
            input={},
        ),
        block(3, "tool_use", id="t2", name="now", input={}),
        stop="tool_use",
        tokens=9,
    )
    async with fake_server(Canned(reply)) as server:
        *pieces, finished = await heard(server, "anthropic")
    assert pieces == [
        ReasoningDelta("hm"),
        TextDelta("Hello"),
        CallDelta(0, "add"),
        CallDelta(0, "", '{"a":'),
        CallDelta(0, "", "1}"),
        CallDelta(1, "now"),
    ]
    assert isinstance(finished, Finished)
    assert finished.usage == Usage(input_tokens=7, output_tokens=9)
    assert (finished.reason, finished.raw_reason) == ("tool_calls", "tool_use")


async def test_a_reply_on_the_openai_wire_streams() -> None:
    reply = events(
        delta(reasoning_content="hm"),
        delta(content="Hello"),
        called(index=0, id="a", name="add", arguments=""),
        called(index=0, arguments='{"a'),
        delta("length"),
        {
            "choices": [],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        },
    )
    async with fake_server(Canned(reply)) as server:
        *pieces, finished = await heard(server, "openai-chat")
    assert pieces == [
        ReasoningDelta("hm"),
        TextDelta("Hello"),
        CallDelta(0, "add"),
        CallDelta(0, "", '{"a'),
    ]
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.usage) == ("length", Usage(input_tokens=3, output_tokens=2))


@pytest.mark.parametrize(
    ("config", "cost"),
    [
        ({"model": "claude-opus-4-6"}, 7 * 5e-6 + 1 * 25e-6),
        ({"model": "claude-opus-4-6", "prices": Prices(input=1, output=2)}, 9e-6),
        ({"model": "m"}, None),
    ],
)
async def test_the_price_is_the_operator_s_or_the_listed_one(
    config: dict[str, Any], cost: float | None
) -> None:
    reply = anthropic_reply(HELLO, stop="end_turn", model=config["model"])
    async with fake_server(Canned(reply)) as server:
        last = (await heard(server, "anthropic", config=config))[-1]
    assert isinstance(last, Finished)
    assert last.usage.cost_usd == (cost if cost is None else pytest.approx(cost))


async def test_the_whole_conversation_is_sent() -> None:
    answer = Canned(anthropic_reply(HELLO, stop="end_turn"))
    async with fake_server(answer, answer) as server:
        await heard(server, "anthropic", *HISTORY, max_tokens=9, config={"extra": {"top_k": 3}})
        await heard(server, "anthropic", *HISTORY, closing=True)
    body, closing = server.bodies
    assert (body["system"][0]["text"], body["max_tokens"], body["top_k"]) == ("Be brief.", 9, 3)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][1]["content"][1]["input"] == {"a": 1}
    assert body["messages"][2]["content"][0]["type"] == "tool_result"
    assert body["tools"][0]["name"] == "add"
    assert closing.get("tool_choice", {"type": "none"}) == {"type": "none"}


async def test_images_are_sent_in_messages_and_after_results() -> None:
    image = ImagePart(content=b"\x89PNG", mime_type="image/png")
    history = [
        UserMessage("What?", (), (image, TextPart("What?"))),
        *HISTORY[1:-1],
        ToolMessage(CallId("tc_1"), "add", "above", parts=(TextPart("above"), image)),
    ]
    async with fake_server(Canned(anthropic_reply(HELLO, stop="end_turn"))) as server:
        await heard(server, "anthropic", *history)
    first, *_, last = server.bodies[0]["messages"]
    assert [each["type"] for each in first["content"]] == ["image", "text"]
    assert [each["type"] for each in last["content"]] == ["tool_result", "text", "image"]


def _error(kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": f"bad {KEY}"}}


@pytest.mark.parametrize(
    ("provider", "answer", "error", "message"),
    [
        (
            "anthropic",
            Canned(blocks_of(_error("authentication_error")), 401, "application/json"),
            ModelRefused,
            "[key]",
        ),
        ("anthropic", Canned([b'{"error": {"message": "no"}}'], 400), ModelRefused, "no"),
        ("anthropic", Canned([], 529, headers={"retry-after": "3"}), ModelUnavailable, ""),
        ("anthropic", Canned([], 400, headers={"request-id": "r7"}), ModelRefused, "(request r7)"),
        ("anthropic", Canned([], 500, headers={"x-should-retry": "false"}), ModelRefused, ""),
        ("openai-chat", Canned([], 400, headers={"x-should-retry": "true"}), ModelUnavailable, ""),
        (
            "openai-chat",
            Canned([TOO_LONG], 400, "application/json"),
            ContextTooLarge,
            "maximum context",
        ),
        (
            "anthropic",
            Canned(blocks_of(_error("overloaded_error"))),
            ModelUnavailable,
            "bad [key]",
        ),
        ("anthropic", Canned(anthropic_reply(HELLO, stop=None)), ModelUnavailable, "cut off"),
        ("anthropic", Canned(HELLO[:1], cut=True), ModelUnavailable, ""),
        ("anthropic", Canned(silent=True), ModelUnavailable, "Connection error."),
        (
            "openai-chat",
            Canned(events(delta(content="a"), done=False)),
            ModelUnavailable,
            "cut off before its end",
        ),
        ("openai-chat", Canned([b"<html>"], 502, "text/html"), ModelUnavailable, "<html>"),
        ("openai-chat", Canned(events("{broken")), ModelUnavailable, "JSON"),
        ("openai-chat", Canned(events({"error": {"code": 503}})), ModelUnavailable, "503"),
    ],
)
async def test_failures_are_classified_and_tried_once(
    provider: str, answer: Canned, error: type[ModelError], message: str
) -> None:
    caught = await failure(provider, answer)
    assert type(caught) is error
    assert str(caught).startswith("the model 'mine': ")
    assert message in str(caught)
    if isinstance(caught, ModelUnavailable) and "retry-after" in answer.headers:
        assert caught.retry_after == 3


async def test_limits_that_a_provider_reports_are_passed_on() -> None:
    """The headers of each answer, and a 429: the queue of the model is held."""
    reported: list[str] = []
    refusal = Canned([b"{}"], 429, "application/json", {"retry-after": "7", "x-note": "one"})
    answer = Canned(anthropic_reply(HELLO, stop="end_turn"), headers={"x-note": "two"})
    config = {"on_headers": lambda headers: reported.append(headers.get("x-note", ""))}
    async with fake_server(refusal, answer) as server:
        with pytest.raises(ModelUnavailable) as caught:
            await heard(server, "anthropic", config=config)
        await heard(server, "anthropic", config=config)
    assert (caught.value.is_throttled, caught.value.retry_after) == (True, 7)
    assert reported == ["one", "two"]


async def test_leaving_a_reply_closes_its_connection() -> None:
    answer = Canned(events(delta(content="a"), done=False), hang=True)
    async with fake_server(answer) as server:
        model = _model("openai-chat", server.url)
        asked = ModelRequest(system="", messages=[UserMessage("hi")])
        async with aclosing(model.stream(asked)) as stream:
            assert await anext(stream) == TextDelta("a")
        await server.hung_up.wait()
        await model.close()


@pytest.mark.parametrize(
    ("provider", "message"),
    [("cohere", "cannot be used: "), ("no-such", "cannot be used: ")],
)
def test_a_model_that_cannot_be_created_is_a_config_error(provider: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _model(provider, "http://127.0.0.1:1")


async def test_a_name_leads_here_when_it_is_first_asked() -> None:
    async with fake_server(Canned(anthropic_reply(HELLO, stop="end_turn"))) as server:
        config = ModelConfig(
            name="mine",
            provider="anthropic",
            model="m",
            base_url=server.url.removesuffix("/v1"),
            api_key=KEY,
        )
        models = ModelRegistry([config], default="mine")
        asked = ModelRequest(system="", messages=[UserMessage("hi")])
        found = [event async for event in models.get().stream(asked)]
        await models.close()
    assert found[0] == TextDelta("Hello")


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("anthropic", "ANTHROPIC_API_KEY"), ("openai-chat", "OPENAI_API_KEY")],
)
async def test_a_key_of_the_environment_is_not_sent_to_another_address(
    monkeypatch: pytest.MonkeyPatch, provider: str, variable: str
) -> None:
    """Without `api_key_env` the library would send what it finds to any base_url."""
    monkeypatch.setenv(variable, KEY)
    answer = Canned(blocks_of(_error("authentication_error")), 401, "application/json")
    async with fake_server(answer) as server:
        with pytest.raises(ModelRefused, match="name the environment variable that holds its key"):
            await heard(server, provider, config={"api_key": None})
    assert len(server.heads) == 1
    assert KEY not in server.heads[0]


async def test_a_key_that_the_library_found_is_not_shown_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    said = {"error": {"message": f"Incorrect API key: {KEY}"}}
    answer = Canned([json.dumps(said).encode()], 401, "application/json")
    async with fake_server(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        with pytest.raises(ModelRefused, match=r"Incorrect API key: \[key\]"):
            await heard(server, "openai-chat", config={"api_key": None, "base_url": None})
    assert KEY in server.heads[0]


async def test_a_setting_that_shows_late_is_a_refusal() -> None:
    """The caller of a stream expects errors of models."""
    config = ModelConfig(name="mine", provider="no-such", model="m")
    asked = ModelRequest(system="", messages=[UserMessage("hi")])
    with pytest.raises(ModelRefused, match="the model 'mine' cannot be used"):
        await anext(LazyModel(config, Limits()).stream(asked))


@pytest.mark.parametrize(
    ("history", "level", "expected"),
    [
        ([], None, (None, 2048, True)),
        ([], "off", (None, 2048, True)),
        ([], "low", ({"type": "enabled", "budget_tokens": 2048}, 4096, False)),
        (HISTORY, "low", (None, 2048, True)),
    ],
)
async def test_a_level_of_thinking_is_a_budget_of_its_own(
    history: list[Message], level: str | None, expected: tuple[Any, int, bool]
) -> None:
    """A task whose calls lack their thinking ends without: the provider refuses a part of it."""
    async with fake_server(Canned(anthropic_reply(HELLO, stop="end_turn"))) as server:
        config = {"model": "claude-haiku-4-5"}
        more: dict[str, Any] = {"thinking": level, "temperature": 0.7, "max_tokens": 2048}
        await heard(server, "anthropic", *history, **more, config=config)
    (body,) = server.bodies
    assert (body.get("thinking"), body["max_tokens"], "temperature" in body) == expected


def test_any_other_provider_that_the_library_knows_may_be_named() -> None:
    """Page: "and everything else it knows"."""
    models = ModelRegistry()
    found = models.get("moonshotai:kimi")
    assert isinstance(found, ConfiguredModel)
    assert isinstance(found.model, LazyModel)
    with pytest.raises(ConfigError, match=r"provider 'xai': .*xai-sdk"):
        models.get("xai:grok")
    with pytest.raises(
        ConfigError, match=r"'anthropics'\. Did you mean 'anthropic'\?.* Pydantic AI"
    ):
        models.get("anthropics:claude")


async def test_a_default_model_of_no_provider_is_named_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown provider 'nobody'"):
        async with open_runtime(tmp_path, settings={"models": {"default": "nobody:fast"}}):
            pass
