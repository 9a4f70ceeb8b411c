"""A provider that finds a schema too complex is asked again, with a tool instead of the format."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.core.errors import ModelRefused
from penstock.core.events.events import NoteEmitted
from penstock.core.late import late
from penstock.core.limits import Limits
from penstock.core.reply import TaskFailed
from penstock.models.model import Model
from penstock.models.providers import ModelConfig
from penstock.models.structured.fitted import SCHEMA_REFUSED
from penstock.testing.runtime import memory_runtime
from tests.kit.fakes.chat import FakeChat
from tests.kit.fakes.google import FakeGoogle
from tests.kit.fakes.provider import Asked, Fault, replying
from tests.kit.fakes.responses import FakeResponses
from tests.kit.logs import events
from tests.kit.model_server import Canned, anthropic_reply, block, fake_server

pytestmark = pytest.mark.programs


@dataclass
class Box:
    """A box."""

    size: int


FITS = replying(Asked("final_answer", {"size": 3}))
NATIVE = {
    "openai": "response_format",
    "openai-responses": "text",
    "anthropic": "output_config",
    "google": "generationConfig",
}
WORDS = {
    "openai": "Invalid schema for response_format 'Box': 'size' is not permitted.",
    "openai-responses": "Invalid schema for response_format 'Box': 'size' is not permitted.",
    "anthropic": "The compiled grammar is too large, which would cause performance issues.",
    "google": "The specified schema produces a constraint that has too many states for serving.",
}
PLACES = {
    "openai": "penstock.models.wires.openai:OpenAIModel",
    "openai-responses": "penstock.models.wires.responses:ResponsesModel",
    "anthropic": "penstock.models.wires.anthropic:AnthropicModel",
    "google": "penstock.models.wires.pydantic_ai:PydanticAIModel",
}
NAMES = {"anthropic": "claude-opus-5-5", "google": "gemini-3-pro"}


def _model(wire: str, url: str) -> Model:
    make: Callable[[ModelConfig, Limits], Model] = late(PLACES[wire])
    config = ModelConfig(
        name="mine",
        provider=wire,
        model=NAMES.get(wire, "gpt-4o"),
        base_url=url if wire in NAMES else f"{url}/v1",
        api_key="sk",
        capabilities={"json_schema": True},
    )
    return make(config, Limits())


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Load the libraries before any test is timed: they take two seconds."""
    asyncio.run(_model("google", "http://127.0.0.1:1").close())


def _called() -> list[bytes]:
    arguments = {"type": "input_json_delta", "partial_json": '{"size": 3}'}
    call = block(0, "tool_use", arguments, id="t1", name="final_answer", input={})
    return anthropic_reply(call, stop="tool_use")


@asynccontextmanager
async def refusing(wire: str, words: str, *, replies: int = 1) -> AsyncIterator[Any]:
    """Refuse the first request with these words, then call `final_answer`."""
    if wire == "anthropic":
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": words}}
        refusal = Canned([json.dumps(error).encode()], 400, "application/json")
        async with fake_server(refusal, *[Canned(_called())] * replies) as server:
            server.url = server.url.removesuffix("/v1")
            yield server
        return
    kinds = {"openai": FakeChat, "openai-responses": FakeResponses, "google": FakeGoogle}
    fault = Fault(400, words, "invalid_request_error")
    async with kinds[wire](fault, *[FITS] * replies).serving() as fake:
        yield fake


def _bodies(server: Any) -> list[dict[str, Any]]:
    bodies = server.bodies
    return [body if isinstance(body, dict) else json.loads(body) for body in bodies]


def _is_native(wire: str, body: dict[str, Any]) -> bool:
    return "size" in json.dumps(body.get(NATIVE[wire], {}))


@pytest.mark.parametrize("wire", NATIVE)
async def test_a_schema_that_is_refused_becomes_a_tool(wire: str) -> None:
    async with refusing(wire, WORDS[wire], replies=2) as server:
        model = _model(wire, server.url)
        agent = Agent("packer", model=model, output=Box, output_mode="native")
        async with memory_runtime(agents=[agent]) as runtime:
            reply = await runtime.chat("Pack", agent=agent)
            again = await runtime.chat("Pack", agent=agent)
            noted = await events(runtime, reply.session)
        await model.close()
    assert (reply.output, again.output) == (Box(3), Box(3))
    bodies = _bodies(server)
    assert [_is_native(wire, body) for body in bodies] == [True, False, False]
    assert ["final_answer" in json.dumps(body.get("tools", "")) for body in bodies] == [
        False,
        True,
        True,
    ]
    (note,) = [each for each in noted if isinstance(each, NoteEmitted)]
    assert (note.event_type, note.level) == (SCHEMA_REFUSED, "warning")
    assert note.message
    assert WORDS[wire] in note.message
    assert note.message.endswith("; the output is asked for in the mode tool instead")


async def test_another_refusal_ends_the_task() -> None:
    async with refusing("openai", "The model is not for you.") as server:
        model = _model("openai", server.url)
        agent = Agent("packer", model=model, output=Box, output_mode="native")
        async with memory_runtime(agents=[agent]) as runtime:
            reply = await runtime.chat("Pack", agent=agent)
        await model.close()
    with pytest.raises(TaskFailed, match="The model is not for you"):
        _ = reply.output
    assert len(server.bodies) == 1


async def test_an_agent_that_works_for_another_one_gets_a_tool_too() -> None:
    async with refusing("openai-responses", WORDS["openai"]) as server:
        model = _model("openai-responses", server.url)
        packer = Agent(
            "packer", description="Packs.", model=model, output=Box, output_mode="native"
        )
        async with FakeChat(
            replying(Asked("packer", {"task": "Pack"})),
            replying(Asked("final_answer", {"size": 4})),
        ).serving() as other:
            asking = _model("openai", other.url)
            chief = Agent("chief", model=asking, output=Box, tools=[packer.as_tool()])
            async with memory_runtime(agents=[chief, packer]) as runtime:
                reply = await runtime.chat("Pack", agent=chief)
            await asking.close()
        await model.close()
    assert reply.output == Box(4)
    assert [_is_native("openai-responses", body) for body in _bodies(server)] == [True, False]


def test_the_words_are_found_on_any_wire() -> None:
    refused: Callable[..., Exception] = late("penstock.models.wires.sse:refused")
    for words in ("schema is too complex", *WORDS.values(), "JSON schema conversion failed: x"):
        error = refused(f"answered 400: {words}")
        assert isinstance(error, ModelRefused)
        assert error.details == {SCHEMA_REFUSED: True}, words
    plain = refused("answered 400: no")
    assert isinstance(plain, ModelRefused)
    assert not plain.details
