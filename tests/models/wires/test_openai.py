"""The OpenAI chat wire, against a server that sends what servers send."""

import asyncio
import gzip
import logging
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from penstock.core.errors import ConfigError, ModelError, ModelRefused, ModelUnavailable
from penstock.core.limits import Limits
from penstock.core.messages import Usage, UserMessage
from penstock.models.model import Finished, ModelEvent, ModelRequest, TextDelta
from penstock.models.providers import ModelConfig
from penstock.models.wires.openai import OpenAIModel
from tests.kit.model_server import Canned, FakeServer, delta, events, fake_server

KEY = "sk-very-secret"
REQUEST = ModelRequest(system="", messages=[UserMessage("hi")])
HELLO = Canned(events(delta(content="Hello"), delta("stop")))


def model(url: str, **limits: Any) -> OpenAIModel:
    config = ModelConfig(
        name="mine", provider="openai", model="m", base_url=url, api_key=KEY, key_env="KEY"
    )
    return OpenAIModel(config, Limits(**limits))


async def heard(server: FakeServer, **limits: Any) -> list[ModelEvent]:
    asked = model(server.url, **limits)
    try:
        return [event async for event in asked.stream(REQUEST)]
    finally:
        await asked.close()


async def failure(answer: Canned, **limits: Any) -> ModelError:
    async with fake_server(answer) as server:
        with pytest.raises(ModelError) as caught:
            await heard(server, **limits)
    assert KEY not in str(caught.value)
    return caught.value


async def test_a_reply_streams() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    chunks = [delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo")]
    async with fake_server(Canned(events(*chunks, delta("stop"), usage))) as server:
        assert await heard(server) == [
            TextDelta("Hel"),
            TextDelta("lo"),
            Finished("stop", Usage(input_tokens=7, output_tokens=2), raw_reason="stop"),
        ]
        assert server.bodies[0]["stream_options"] == {"include_usage": True}
        assert f"authorization: bearer {KEY}" in server.heads[0].lower()
        assert "POST /v1/chat/completions HTTP/1.1" in server.heads[0]


async def test_a_server_that_ignores_stream_is_understood() -> None:
    reply = (
        b'{"choices": [{"message": {"content": "Hi"},\n "finish_reason": "stop"}],\n'
        b'"usage": {"prompt_tokens": 1, "completion_tokens": 1}}'
    )
    async with fake_server(Canned([reply[:20], reply[20:]], kind="application/json")) as server:
        assert await heard(server) == [
            TextDelta("Hi"),
            Finished("stop", Usage(input_tokens=1, output_tokens=1), raw_reason="stop"),
        ]


async def test_missing_usage_is_estimated() -> None:
    async with fake_server(HELLO) as server:
        last = (await heard(server))[-1]
    assert last == Finished("stop", Usage(input_tokens=1, output_tokens=2), raw_reason="stop")


async def test_a_server_that_compresses_anyway_is_understood() -> None:
    packed = gzip.compress(b"".join(HELLO.blocks))
    answer = Canned([packed[:9], packed[9:]], headers={"content-encoding": "gzip"})
    async with fake_server(answer) as server:
        assert (await heard(server))[0] == TextDelta("Hello")


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            Canned(
                [b'{"error": {"message": "Incorrect API key: sk-very-secret"}}'], 401, "text/json"
            ),
            ModelRefused,
            "answered 401: Incorrect API key: [key]; check the key in the environment variable KEY",
        ),
        (
            Canned([b'{"detail": "no such model"}'], 404, "application/json"),
            ModelRefused,
            "answered 404: no such model; check base_url and model",
        ),
        (
            Canned([b"<html><head><title>x</title></head><h1>Bad\nGateway</h1>"], 502, "text/html"),
            ModelUnavailable,
            "answered 502: Bad Gateway",
        ),
        (Canned([], 400), ModelRefused, "answered 400: Said"),
        (
            Canned([b"<html>Log in</html>"], 200, "text/html"),
            ModelRefused,
            "expected an event stream, found text/html: 'Log in'; check base_url",
        ),
        (
            Canned([b'{"ok": true}'], 200, "application/json"),
            ModelRefused,
            "expected an event stream, found application/json: '{\"ok\": true}'; check base_url",
        ),
        (
            Canned(events({"error": {"message": "busy", "code": 503}})),
            ModelUnavailable,
            "busy",
        ),
        (
            Canned(events({"error": {"message": "bad tool", "type": "invalid_request_error"}})),
            ModelRefused,
            "bad tool",
        ),
        (
            Canned(events(delta(content="a"), done=False)),
            ModelUnavailable,
            "the model's reply was cut off before its end",
        ),
        (
            Canned(events("{broken")),
            ModelUnavailable,
            "the model sent a piece that is not JSON: '{broken'",
        ),
    ],
)
async def test_failures_carry_the_provider_s_words(
    answer: Canned, error: type[ModelError], message: str
) -> None:
    caught = await failure(answer)
    assert type(caught) is error
    place, _, said = str(caught).partition(": ")
    assert place.startswith("the model 'mine' at http://127.0.0.1:")
    assert said == message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        (
            {
                "date": "Sat, 21 Nov 2026 09:00:00 GMT",
                "retry-after": "Sat, 21 Nov 2026 09:00:09 GMT",
            },
            9,
        ),
        ({"retry-after": "soon"}, None),
        ({"retry-after": f"Sat, 21 Nov {'9' * 30} 09:00:09 GMT"}, None),
        ({}, None),
    ],
)
async def test_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    caught = await failure(Canned([b"slow down"], 429, "text/plain", headers))
    assert isinstance(caught, ModelUnavailable)
    assert caught.retry_after == seconds


async def test_a_cut_connection_is_unavailable() -> None:
    for answer in (
        Canned(events(delta(content="a"), done=False), cut=True),
        Canned(silent=True),
    ):
        caught = await failure(answer)
        assert isinstance(caught, ModelUnavailable)
        assert "broke off" in str(caught)


async def test_a_refused_connection_is_unavailable() -> None:
    async with fake_server() as server:
        pass
    with pytest.raises(ModelUnavailable, match=r"'mine' at http://127.* cannot be reached: "):
        await heard(server)


async def test_silence_is_not_waited_out() -> None:
    caught = await failure(Canned(events(delta(content="a"), done=False), hang=True), **SHORT)
    assert isinstance(caught, ModelUnavailable)


SHORT = {"model_silence_seconds": 0.05}


@pytest.mark.parametrize(
    "blocks",
    [
        [b"data: " + b"x" * 3000],
        [b"x" * 500] * 6,
        events(*[delta(content="abc")] * 40),
        [b": ping\n"] * 400,
    ],
)
async def test_a_reply_without_end_is_refused(blocks: list[bytes]) -> None:
    caught = await failure(Canned(blocks, hang=True), reply_bytes=2000)
    assert isinstance(caught, ModelRefused)
    assert "longer than Limits.reply_bytes" in str(caught)


async def test_a_whole_reply_without_end_is_refused() -> None:
    caught = await failure(Canned([b"[" * 500] * 5, kind="application/json"), reply_bytes=2000)
    assert isinstance(caught, ModelRefused)


async def test_the_connection_is_used_again() -> None:
    async with fake_server(HELLO, HELLO, HELLO) as server:
        asked = model(server.url)
        for _ in range(3):
            assert len([event async for event in asked.stream(REQUEST)]) == 2
        await asked.close()
    assert server.connections == 1


async def test_an_idle_connection_that_was_closed_is_replaced_silently() -> None:
    async with fake_server(replace(HELLO, drop_later=True), HELLO) as server:
        asked = model(server.url)
        for _ in range(2):
            assert len([event async for event in asked.stream(REQUEST)]) == 2
        await asked.close()
    assert server.connections == 2


async def test_a_server_that_always_hangs_up_is_asked_no_more_than_twice() -> None:
    async with fake_server(HELLO, Canned(silent=True), Canned(silent=True), HELLO) as server:
        asked = model(server.url)
        assert [event async for event in asked.stream(REQUEST)]
        with pytest.raises(ModelUnavailable):
            assert [event async for event in asked.stream(REQUEST)]
        await asked.close()
    assert len(server.bodies) == 3


async def test_an_answer_that_stays_open_after_its_end_is_left() -> None:
    answer = Canned(events(delta(content="Hello"), delta("stop")), hang=True)
    async with fake_server(answer) as server:
        assert len(await heard(server, model_end_seconds=0.02)) == 2
        await server.hung_up.wait()


async def test_leaving_a_reply_closes_its_connection() -> None:
    """Cancellation closes the connection."""
    answer = Canned(events(delta(content="a"), done=False), hang=True)
    async with fake_server(answer) as server:
        asked = model(server.url)
        async with aclosing(asked.stream(REQUEST)) as stream:
            assert await anext(stream) == TextDelta("a")
        await server.hung_up.wait()
        await asked.close()


async def test_a_cancelled_task_closes_its_connection() -> None:
    answer = Canned(events(delta(content="a"), done=False), hang=True)
    async with fake_server(answer) as server:
        reached = asyncio.Event()
        asked = model(server.url)

        async def listen() -> None:
            async for _ in asked.stream(REQUEST):
                reached.set()

        task = asyncio.create_task(listen())
        await reached.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert await server.hung_up.wait()
        await asked.close()


async def test_the_key_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with fake_server(HELLO) as server:
            asked = model(server.url)
            assert [event async for event in asked.stream(REQUEST)]
            await asked.close()
    assert KEY not in caplog.text + repr(asked.card)


@pytest.mark.parametrize(
    ("base_url", "key", "message"),
    [
        ("localhost:80/v1", "", "must be an http or https URL such as http://127.0.0.1:8080/v1"),
        ("http://h:port/v1", "", "is not a URL"),
        ("http://h/v1", "two words", "contains characters that are not allowed"),
        ("http://h/v1", "key\n", "contains characters that are not allowed"),
    ],
)
def test_settings_that_cannot_work_are_refused(base_url: str, key: str, message: str) -> None:
    config = ModelConfig(name="mine", provider="openai", base_url=base_url, api_key=key)
    with pytest.raises(ConfigError, match=message) as caught:
        OpenAIModel(config, Limits())
    assert not key or key not in str(caught.value)
