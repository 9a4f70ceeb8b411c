"""A hook edits the arguments of a call: the tool gets them, the provider reads its own."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from penstock import Agent, Hooks, ModelReply
from penstock.core.late import late
from penstock.core.limits import Limits
from penstock.models.model import Model
from penstock.models.providers import ModelConfig
from penstock.models.settings import ModelSettings
from penstock.testing.runtime import memory_runtime
from tests.kit.fake_anthropic import BINDING, MODELS, fake_anthropic
from tests.kit.fakes.google import FakeGoogle
from tests.kit.fakes.provider import Asked, Said, Thought, replying
from tests.kit.fakes.responses import FakeResponses
from tests.kit.tools import Act

pytestmark = pytest.mark.programs
PLACES = {
    "anthropic": ("penstock.models.wires.anthropic:AnthropicModel", MODELS[BINDING]),
    "openai-responses": ("penstock.models.wires.responses:ResponsesModel", "gpt-6-sol"),
    "google": ("penstock.models.wires.pydantic_ai:PydanticAIModel", "gemini-3-pro"),
}


class Edit(Hooks[Any]):
    """Makes the input of each call another one."""

    async def after_reply(self, ctx: Any, reply: ModelReply) -> ModelReply:
        calls = [replace(each, input={"n": 77}) for each in reply.calls]
        return replace(reply, calls=tuple(calls))


def _model(provider: str, url: str) -> Model:
    place, name = PLACES[provider]
    make: Callable[[ModelConfig, Limits], Model] = late(place)
    address = f"{url}/v1" if provider == "openai-responses" else url
    config = ModelConfig(name="mine", provider=provider, model=name, base_url=address, api_key="sk")
    return make(config, Limits())


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Load the libraries before any test is timed: they take two seconds."""
    asyncio.run(_model("google", "http://127.0.0.1:1").close())


@asynccontextmanager
async def serving(provider: str) -> AsyncIterator[Any]:
    if provider == "anthropic":
        async with fake_anthropic(BINDING, calls=1) as fake:
            yield fake
        return
    answers = replying(Thought("hm"), Asked("look", {"n": 0})), replying(Said("Done."))
    server = FakeGoogle(*answers) if provider == "google" else FakeResponses(*answers)
    async with server.serving() as serving:
        yield serving


@pytest.mark.parametrize("provider", PLACES)
async def test_the_wire_repeats_the_input_of_the_model(provider: str) -> None:
    """Models §12; a provider that compares its own words refuses others."""
    tool = Act("look")
    async with serving(provider) as fake:
        model = _model(provider, fake.url)
        settings = ModelSettings(thinking="low")
        agent = Agent("clerk", model=model, model_settings=settings, hooks=[Edit()])
        async with memory_runtime(agents=[agent], tools=[tool]) as runtime:
            reply = await runtime.chat("Go", agent=agent)
        await model.close()
    assert (reply.status, tool.runs, fake.refusals) == ("succeeded", [{"n": 77}], [])
    sent = json.dumps(fake.requests[1])
    assert "77" not in sent
    assert '"n": 0' in sent.replace('\\"', '"')
