"""The native wires against a server of others: it leaves out what providers send, and it fails.

It streams no sequence numbers, no pings and no usage of caches, and signs thinking with a
placeholder: a wire that needs one of them does not read its replies.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Agent, tool
from penstock.core.errors import ModelError, ModelRefused, ModelUnavailable
from penstock.core.limits import Limits
from penstock.core.messages import UserMessage
from penstock.models.model import Finished, Model, ModelRequest, ReasoningDelta, TextDelta
from penstock.models.providers import ModelConfig
from penstock.models.wires.anthropic import AnthropicModel
from penstock.models.wires.openai import OpenAIModel
from penstock.models.wires.responses import ResponsesModel
from penstock.testing.runtime import memory_runtime
from tests.kit.aimock import aimock

pytestmark = [pytest.mark.peers, pytest.mark.slow("starts Node")]
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "hello"}, "response": {"content": "Hello! How can I help?"}},
    {
        "match": {"userMessage": "think"},
        "response": {"content": "It is 4.", "reasoning": "Two and two."},
    },
    {
        "match": {"userMessage": "find", "hasToolResult": True},
        "response": {"content": "It is there."},
    },
    {
        "match": {"userMessage": "find", "hasToolResult": False},
        "response": {"toolCalls": [{"name": "look", "arguments": {"n": 3}}]},
    },
]
WIRES = ("anthropic", "openai-responses", "openai")


@asynccontextmanager
async def model_of(wire: str, folder: Path, *options: str) -> AsyncIterator[Model]:
    async with aimock(folder, *options, fixtures=FIXTURES) as url:
        is_claude = wire == "anthropic"
        name = "claude-opus-4-6" if is_claude else "gpt-6-sol"
        base_url = url if is_claude else f"{url}/v1"
        config = ModelConfig(name="m", provider=wire, model=name, base_url=base_url, api_key="k")
        kinds: dict[str, Any] = {"anthropic": AnthropicModel, "openai": OpenAIModel}
        model: Model = kinds.get(wire, ResponsesModel)(config, Limits())
        yield model
        await model.close()


async def events_of(model: Model, text: str) -> list[Any]:
    request = ModelRequest(system="Be brief.", messages=[UserMessage(text)], thinking="low")
    return [event async for event in model.stream(request)]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("asked", "said", "thought"),
    [("hello", "Hello! How can I help?", ""), ("think", "It is 4.", "Two and two.")],
)
async def test_a_reply_is_read_without_what_it_leaves_out(
    wire: str, asked: str, said: str, thought: str, tmp_path: Path
) -> None:
    async with model_of(wire, tmp_path, "--chunk-size", "3") as model:
        events = await events_of(model, asked)
    assert "".join(each.text for each in events if isinstance(each, TextDelta)) == said
    assert "".join(each.text for each in events if isinstance(each, ReasoningDelta)) == thought
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"


@pytest.mark.parametrize("wire", WIRES)
async def test_an_agent_finishes_a_call(wire: str, tmp_path: Path) -> None:
    seen: list[int] = []

    @tool(effect="read")
    def look(n: int) -> str:
        """Look."""
        seen.append(n)
        return "there"

    async with model_of(wire, tmp_path) as model:
        agent = Agent("clerk", model=model, tools=[look])
        async with memory_runtime(agents=[agent]) as runtime:
            reply = await runtime.chat("find", agent=agent)
    assert reply.error is None
    assert (seen, reply.content) == ([3], "It is there.")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("fault", "error", "seconds"),
    [
        ("drop", ModelUnavailable, None),
        ("disconnect", ModelUnavailable, None),
        ("ratelimit", ModelUnavailable, 1.0),
        ("malformed", ModelRefused, None),
    ],
)
async def test_a_fault_is_an_error_of_the_right_kind(
    wire: str, fault: str, error: type[ModelError], seconds: float | None, tmp_path: Path
) -> None:
    async with model_of(wire, tmp_path, f"--chaos-{fault}", "1") as model:
        with pytest.raises(ModelError) as caught:
            await events_of(model, "hello")
    assert type(caught.value) is error
    assert getattr(caught.value, "retry_after", None) == seconds
