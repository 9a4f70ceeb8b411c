"""What Pydantic AI is asked for: settings that a model can follow, and one warning for others."""

import asyncio
import logging
from typing import Any

import pytest

from penstock.core.late import late
from penstock.core.limits import Limits
from penstock.core.messages import (
    AudioPart,
    DocumentPart,
    ImagePart,
    TextPart,
    UserMessage,
)
from penstock.models.model import Model, ModelRequest, OutputFormat, ToolDefinition
from penstock.models.providers import ModelConfig
from tests.kit.fakes.google import FakeGoogle
from tests.kit.fakes.provider import Said, replying
from tests.kit.model_server import (
    Canned,
    anthropic_reply,
    block,
    delta,
    events,
    fake_server,
)

pytestmark = pytest.mark.programs
HELLO = replying(Said("Hello"))
LOOK = ToolDefinition(name="look", description="Look", parameters={"type": "object"})
SIZE = {"type": "integer", "minimum": 2}
SCHEMA = {
    "type": "object",
    "properties": {"size": SIZE},
    "required": ["size"],
    "additionalProperties": False,
}
OUTPUT = OutputFormat(name="Box", schema=SCHEMA)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Load the libraries before any test is timed: they take two seconds."""
    for provider in ("anthropic", "google", "openai-chat"):
        asyncio.run(_model(provider, "http://127.0.0.1:1").close())


def _model(provider: str, url: str, **config: Any) -> Model:
    make = late("penstock.models.wires.pydantic_ai:PydanticAIModel")
    given = {"name": "mine", "provider": provider, "model": "m", "base_url": url, **config}
    made: Model = make(ModelConfig(**{"api_key": "sk", **given}), Limits())
    return made


def _request(**more: Any) -> ModelRequest:
    asked: dict[str, Any] = {"system": "Be brief.", "messages": [UserMessage("hi")], **more}
    return ModelRequest(**asked)


async def google(
    *requests: ModelRequest, model: str = "gemini-3-pro", **config: Any
) -> list[dict[str, Any]]:
    """Send the requests to Google; return their bodies."""
    async with FakeGoogle(*[HELLO] * len(requests)).serving() as server:
        asked = _model("google", server.url, model=model, **config)
        for request in requests:
            async for _ in asked.stream(request):
                pass
        await asked.close()
    assert server.refusals == []
    return server.requests


async def sent(provider: str, answer: Any, model: str, **more: Any) -> dict[str, Any]:
    """Send one request; return its body."""
    async with fake_server(Canned(answer)) as server:
        url = server.url.removesuffix("/v1") if provider == "anthropic" else server.url
        asked = _model(provider, url, model=model, extra=more.pop("config", {}))
        async for _ in asked.stream(_request(**more)):
            pass
        await asked.close()
    return server.bodies[0]


async def chat(model: str = "gpt-4o", **more: Any) -> dict[str, Any]:
    return await sent("openai-chat", events(delta("stop", content="Hi")), model, **more)


async def claude(model: str = "claude-haiku-4-5", **more: Any) -> dict[str, Any]:
    said = block(0, "text", {"type": "text_delta", "text": "Hi"}, text="")
    return await sent("anthropic", anthropic_reply(said, stop="end_turn"), model, **more)


async def test_each_setting_reaches_google() -> None:
    (body,) = await google(
        _request(
            temperature=0.5, top_p=0.9, seed=7, stop=("END", "STOP"), max_tokens=100, tools=[LOOK]
        ),
        model="gemini-2.0-flash",
    )
    wanted = {
        "temperature": 0.5,
        "topP": 0.9,
        "seed": 7,
        "stopSequences": ["END", "STOP"],
        "maxOutputTokens": 100,
    }
    assert {name: body["generationConfig"].get(name) for name in wanted} == wanted


async def test_each_setting_reaches_an_openai_server() -> None:
    body = await chat(
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop=("END",),
        max_tokens=100,
        parallel_calls=False,
        tools=[LOOK],
        tool_choice="look",
        extra={"logit_bias": {"1": 2}, "user": None},
    )
    assert (body["temperature"], body["top_p"], body["seed"], body["stop"]) == (
        0.5,
        0.9,
        7,
        ["END"],
    )
    assert body["parallel_tool_calls"] is False
    assert body["tool_choice"] == "required" or body["tool_choice"]["function"]["name"] == "look"
    assert (body["logit_bias"], body["store"]) == ({"1": 2}, False)
    assert "user" not in body


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, "VALIDATED"),
        ("auto", "VALIDATED"),
        ("none", "NONE"),
        ("required", "ANY"),
        ("look", "ANY"),
    ],
)
async def test_a_choice_of_tools_is_sent(choice: str | None, expected: str) -> None:
    (body,) = await google(_request(tools=[LOOK], tool_choice=choice))
    assert body["toolConfig"]["functionCallingConfig"]["mode"] == expected


async def test_a_closing_request_calls_no_tool_whatever_is_set() -> None:
    (body,) = await google(
        _request(tools=[LOOK], tool_choice="required", closing=True, extra={"tool_choice": "look"})
    )
    assert body["toolConfig"]["functionCallingConfig"]["mode"] == "NONE"
    assert body["tools"]


@pytest.mark.parametrize(
    ("level", "thinking", "room"),
    [
        ("low", {"thinking_level": "LOW", "include_thoughts": True}, 2048),
        ("high", {"thinking_level": "HIGH", "include_thoughts": True}, 16_384),
        (None, None, 16_384),
    ],
)
async def test_a_level_of_thinking_has_room_in_the_longest_reply(
    level: str | None, thinking: dict[str, Any] | None, room: int
) -> None:
    """Google counts thoughts in the longest reply; `gemini-3-pro` thinks unless told otherwise."""
    (body,) = await google(_request(thinking=level, max_tokens=100, temperature=0.5))
    config = body["generationConfig"]
    assert config.get("thinkingConfig") == thinking
    assert (config["maxOutputTokens"], config["temperature"]) == (100 + room, 0.5)


async def test_a_provider_that_enforces_a_schema_gets_it_beside_tools() -> None:
    (body,) = await google(_request(output=OUTPUT, tools=[LOOK]))
    config = body["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["properties"] == {"size": SIZE}
    assert body["tools"][0]["functionDeclarations"][0]["name"] == "look"


async def test_a_model_that_enforces_no_schema_beside_tools_reads_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    able = {"json_schema": True}
    with caplog.at_level(logging.WARNING, "penstock"):
        bodies = await google(
            *[_request(output=OUTPUT, tools=[LOOK])] * 2, model="gemini-2.5-pro", capabilities=able
        )
    for body in bodies:
        assert "responseJsonSchema" not in body["generationConfig"]
        assert '"minimum": 2' in body["systemInstruction"]["parts"][-1]["text"]
    assert caplog.messages == [
        "the model 'mine' enforces no schema here: output goes into the system prompt"
    ]


async def test_without_the_capability_no_schema_is_sent() -> None:
    (body,) = await google(_request(output=OUTPUT), model="gemini-2.5-pro")
    assert "responseMimeType" not in body["generationConfig"]


@pytest.mark.parametrize(
    ("more", "warnings"),
    [
        ({"parallel_calls": False, "tools": [LOOK]}, ["does not know it: parallel_tool_calls"]),
        ({"extra": {"labels": {}}}, ["takes no members of its own in a request: labels"]),
        ({"extra": {"top_k": 3}}, []),
        ({"extra": {"google_video_resolution": "MEDIA_RESOLUTION_LOW"}}, []),
        ({"extra": {"labels": None}}, []),
    ],
)
async def test_what_google_does_not_know_is_left_out_with_one_warning(
    more: dict[str, Any], warnings: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        bodies = await google(_request(**more), _request(**more))
    assert caplog.messages == [f"the model 'mine' {each} is left out" for each in warnings]
    config = bodies[0]["generationConfig"]
    assert config.get("topK") == more.get("extra", {}).get("top_k")
    assert ("mediaResolution" in config) is ("google_video_resolution" in more.get("extra", {}))


async def test_claude_follows_what_it_can(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        body = await claude(
            seed=7,
            top_p=0.5,
            temperature=0.1,
            thinking="low",
            max_tokens=100,
            tools=[LOOK],
            tool_choice="required",
        )
    assert (body["thinking"]["budget_tokens"], body["max_tokens"]) == (2048, 2148)
    assert not {"seed", "top_p", "temperature"} & body.keys()
    assert body["tool_choice"] == {"type": "auto"}
    assert sorted(caplog.messages) == [
        "the model 'mine' accepts no sampling settings while it thinks: temperature is left out",
        "the model 'mine' accepts no sampling settings while it thinks: top_p is left out",
        "the model 'mine' cannot be forced to call a tool: tool_choice is left out",
        "the model 'mine' does not know it: seed is left out",
    ]


@pytest.mark.parametrize(("asked", "ttl"), [(None, "5m"), ("1h", "1h")])
async def test_claude_gets_cache_points(asked: str | None, ttl: str) -> None:
    """After tools and instructions, and at the last message; OpenAI's caches need none."""
    body = await claude(tools=[LOOK], cache_ttl=asked)
    point = {"type": "ephemeral", "ttl": ttl}
    assert body["tools"][-1]["cache_control"] == point
    assert body["system"][-1]["cache_control"] == point
    assert body.get("cache_control") or body["messages"][-1]["content"][-1]["cache_control"]
    assert "cache" not in str(await chat(tools=[LOOK], cache_ttl=asked))


async def test_a_model_without_levels_gets_none(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        body = await chat(thinking="high", temperature=0.5)
        assert "reasoning_effort" not in await chat(thinking="off")
    assert ("reasoning_effort" in body, body["temperature"]) == (False, 0.5)
    assert caplog.messages == ["the model 'mine' has no levels of thinking: thinking is left out"]


async def test_an_effort_is_sent_on_the_openai_wire() -> None:
    assert (await chat("gpt-5.2", thinking="high"))["reasoning_effort"] == "high"


async def test_images_documents_and_sound_are_sent() -> None:
    files = (
        ImagePart(content=b"\x89PNG", mime_type="image/png"),
        DocumentPart(content=b"%PDF", mime_type="application/pdf", name="a.pdf"),
        AudioPart(content=b"RIFF", mime_type="audio/wav"),
    )
    message = UserMessage("What?", parts=(*files, TextPart("What?")))
    (body,) = await google(_request(messages=[message]))
    *sent, text = body["contents"][0]["parts"]
    types = [next(iter(each.values()))["mime_type"] for each in sent]
    assert types == [each.mime_type for each in files]
    assert text == {"text": "What?"}
