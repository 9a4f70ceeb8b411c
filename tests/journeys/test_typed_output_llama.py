"""Typed output from a real model server: a grammar holds every reply to the schema."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest

import penstock
from penstock import Agent, Limits, Reply
from penstock.models.providers import ModelConfig
from penstock.models.wires.openai import OpenAIModel
from penstock.testing.runtime import memory_runtime
from tests.kit.llama import Constrained, llama_server

pytestmark = [
    pytest.mark.programs,
    pytest.mark.slow("another process writes every reply, a character at a time"),
]
CONTEXT = 8_192
"""The model of the server reads each character as a token."""


class Ticket(TypedDict):
    """A report, sorted."""

    severity: Literal["low", "high"]
    area: Literal["billing", "login"]
    is_urgent: bool


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with llama_server(CONTEXT) as url:
        yield url


async def test_the_server_holds_a_native_output_to_its_schema(server: str, tmp_path: Path) -> None:
    """In the mode `native`, by its `json_schema` format."""
    peer = {"provider": "llama.cpp", "model": "tiny", "base_url": f"{server}/v1"}
    settings = {"models": {"default": "peer", "peer": {**peer, "json_schema": True}}}
    agent = Agent("clerk", instructions="Sort.", output=Ticket, output_mode="native")
    async with penstock.open(tmp_path, agents=[agent], settings=settings) as runtime:
        check(await runtime.chat("I was charged twice.", agent=agent))


async def test_the_server_holds_the_call_of_an_output_to_its_schema(server: str) -> None:
    """In the mode `tool`, by the grammar of the call that hands the output in."""
    config = ModelConfig(
        name="peer",
        provider="llama.cpp",
        model="tiny",
        base_url=f"{server}/v1",
        extra={"tool_choice": "required"},
    )
    # Its words are noise: it would repeat the call until its reply is full.
    model = Constrained(OpenAIModel(config, Limits()), lambda request: request.tools[0])
    agent = Agent("clerk", instructions="Sort.", output=Ticket, output_mode="tool", model=model)
    async with memory_runtime(agents=[agent]) as runtime:
        check(await runtime.chat("I was charged twice.", agent=agent))
    await model.close()
    assert [each.name for each in model.requests[0].tools] == ["final_answer"]


def check(reply: Reply[Any]) -> None:
    assert reply.error is None
    assert set(reply.output) == {"severity", "area", "is_urgent"}
    assert reply.output["severity"] in {"low", "high"}
    assert reply.output["area"] in {"billing", "login"}
    assert isinstance(reply.output["is_urgent"], bool)
    assert reply.usage.model_calls == 1
