"""Replies of each native wire over HTTP: whole however they arrive, retried when they break."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from penstock.core.errors import ModelError, ModelRefused, ModelUnavailable
from penstock.core.limits import Limits
from penstock.core.messages import UserMessage
from penstock.models.model import Finished, Model, ModelEvent, ModelRequest, TextDelta
from penstock.models.providers import ModelConfig
from penstock.models.wires.anthropic import AnthropicModel
from penstock.models.wires.openai import OpenAIModel
from penstock.models.wires.responses import ResponsesModel
from tests.kit.fake_anthropic import ADAPTIVE, MODELS, fake_anthropic
from tests.kit.fakes.chat import FakeChat
from tests.kit.fakes.provider import Delivery, FakeProvider, Fault, Reply, Said, Thought
from tests.kit.fakes.responses import FakeResponses

pytestmark = pytest.mark.programs
WIRES = ("anthropic", "openai-responses", "openai")
Events = list[ModelEvent]


@asynccontextmanager
async def asked(wire: str, *answers: Delivery | Fault) -> AsyncIterator[Model]:
    """Yield a model of a fake provider that answers in these ways."""
    if wire == "anthropic":
        faults = [each for each in answers if isinstance(each, Fault)]
        ways = [each for each in answers if isinstance(each, Delivery)] or [Delivery()]
        async with fake_anthropic(ADAPTIVE, faults=faults, delivery=ways[0]) as claude:
            model: Model = AnthropicModel(config(wire, MODELS[ADAPTIVE], claude.url), Limits())
            yield model
            await model.close()
        return
    replies = (
        each if isinstance(each, Fault) else Reply((Thought(), Said("Answer 0.")), "", each)
        for each in answers
    )
    fake: FakeProvider = (FakeChat if wire == "openai" else FakeResponses)(*replies)
    async with fake.serving() as server:
        kind = OpenAIModel if wire == "openai" else ResponsesModel
        model = kind(config(wire, "gpt-6-sol", f"{server.url}/v1"), Limits())
        yield model
        await model.close()


def config(wire: str, name: str, url: str) -> ModelConfig:
    return ModelConfig(name="m", provider=wire, model=name, base_url=url, api_key="k")


async def events_of(model: Model, *texts: str) -> Events:
    """Ask the model once."""
    messages = [UserMessage(each) for each in texts or ("Hi",)]
    request = ModelRequest(system="Be brief.", messages=messages)
    return [event async for event in model.stream(request)]


def text_of(events: Events) -> str:
    return "".join(each.text for each in events if isinstance(each, TextDelta))


WAYS = {
    "whole": Delivery(),
    "single bytes": Delivery(single_bytes=True),
    "CRLF": Delivery(crlf=True),
    "pings": Delivery(pings=True),
    "unknown events": Delivery(unknown_events=True),
    "all": Delivery(single_bytes=True, crlf=True, pings=True, unknown_events=True),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_reply_is_read_however_it_arrives(wire: str, way: Delivery) -> None:
    async with asked(wire, way) as model:
        events = await events_of(model)
    assert text_of(events) == "Answer 0."
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"
    assert events[-1].usage.output_tokens == 9


@pytest.mark.parametrize("wire", WIRES)
async def test_a_reply_cut_at_any_event_may_be_retried(wire: str) -> None:
    cut, texts = 0, []
    while True:
        async with asked(wire, Delivery(cut_after=cut)) as model:
            try:
                texts.append(text_of(await events_of(model)))
            except ModelUnavailable:
                texts.append("")
        if texts[-1]:
            break
        cut += 1
    # The first cut after which nothing is missing is the one after the last event that counts.
    assert texts[-1] == "Answer 0."
    assert cut > 8


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("after", [0, 1, 3, 6])
async def test_an_error_inside_a_stream_may_be_retried(wire: str, after: int) -> None:
    """The status was 200: the headers were sent before the provider failed."""
    async with asked(wire, Delivery(error_after=after)) as model:
        with pytest.raises(ModelUnavailable, match="Overloaded"):
            await events_of(model)


NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
LATER = format_datetime(NOW + timedelta(seconds=7), usegmt=True)
HEADERS: list[tuple[dict[str, str], float | None]] = [
    ({}, None),
    ({"retry-after": "3"}, 3),
    ({"retry-after": "0.5"}, 0.5),
    ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    ({"retry-after": LATER, "date": format_datetime(NOW, usegmt=True)}, 7),
    ({"retry-after": "soon"}, None),
]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("headers", "seconds"), HEADERS)
async def test_a_provider_says_when_to_ask_again(
    wire: str, headers: dict[str, str], seconds: float | None
) -> None:
    async with asked(wire, Fault(429, "Slow down.", "rate_limit_exceeded", headers)) as model:
        with pytest.raises(ModelUnavailable, match="Slow down") as caught:
            await events_of(model)
    assert caught.value.is_throttled
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(529, "Overloaded", "overloaded_error"), ModelUnavailable),
        (Fault(503, "Down", "api_error"), ModelUnavailable),
        (Fault(503, "Down", "api_error", {"x-should-retry": "false"}), ModelRefused),
        (Fault(400, "Hm", "api_error", {"x-should-retry": "true"}), ModelUnavailable),
        (Fault(401, "No", "authentication_error"), ModelRefused),
    ],
    ids=["529", "503", "503 for good", "400 for now", "401"],
)
async def test_an_error_says_whether_to_ask_again(
    wire: str, fault: Fault, error: type[ModelError]
) -> None:
    async with asked(wire, fault) as model:
        with pytest.raises(ModelError, match=fault.message) as caught:
            await events_of(model)
    assert type(caught.value) is error


@pytest.mark.parametrize("wire", WIRES)
async def test_the_same_beginning_is_read_from_the_cache(wire: str) -> None:
    """Fakes count it by comparing with the requests before; so do providers."""
    first = "Hi " * 200
    async with asked(wire, Delivery(), Delivery()) as model:
        ends = [(await events_of(model, *texts))[-1] for texts in ((first,), (first, "And?"))]
    read = [each.usage.cached_tokens for each in ends if isinstance(each, Finished)]
    assert read[0] == 0
    assert read[1] > 100
