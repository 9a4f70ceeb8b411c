"""Names that providers refuse: a chat with such tools and invented calls, on every wire.

The server refuses a request for one name that does not fit, as providers do.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from penstock import Agent, tool
from penstock.core.late import late
from penstock.core.limits import Limits
from penstock.models.model import Model, ModelRequest, ToolDefinition
from penstock.models.providers import ModelConfig
from penstock.models.wires.openai import OpenAIModel
from penstock.models.wires.wire_names import WireNames
from penstock.testing.runtime import memory_runtime
from tests.kit import model_server
from tests.kit.model_server import Canned, delta

pytestmark = pytest.mark.programs
found: list[str] = []
INVENTED = ("my tool!", "x" * 200, "ünï.code", "9lives")


@tool(id="shop.find", effect="read")
def find_with_dot(word: str) -> str:
    """Find with a dot."""
    found.append(f"dot {word}")
    return word


@tool(id="shop_find", effect="read")
def find_with_line(word: str) -> str:
    """Find with an underscore."""
    found.append(f"line {word}")
    return word


TOOLS = (find_with_dot, find_with_line)


def sent(name: str) -> str:
    """Return what a name is called on the wire."""
    offered = [ToolDefinition(name=each.tool_id, description="", parameters={}) for each in TOOLS]
    return WireNames(ModelRequest(system="", messages=[], tools=offered)).sent(name)


CALLS = [
    (sent("shop.find"), {"word": "a"}),
    ("shop_find", {"word": "b"}),
    *((name, {}) for name in INVENTED),
]


def openai_calls() -> Canned:
    """Return a reply of the OpenAI wire with these calls."""
    chunks = [
        model_server.called(index=at, id=f"c{at}", name=name, arguments=json.dumps(given))
        for at, (name, given) in enumerate(CALLS)
    ]
    return Canned(model_server.events(*chunks, delta("tool_calls")))


def anthropic_calls() -> Canned:
    """Return the same of the Anthropic wire."""
    blocks = [
        model_server.block(
            at,
            "tool_use",
            {"type": "input_json_delta", "partial_json": json.dumps(given)},
            id=f"c{at}",
            name=name,
            input={},
        )
        for at, (name, given) in enumerate(CALLS)
    ]
    return Canned(model_server.anthropic_reply(*blocks, stop="tool_use"))


def openai_text() -> Canned:
    """Return a reply of words."""
    return Canned(model_server.events(delta(content="Done"), delta("stop")))


def anthropic_text() -> Canned:
    """Return the same of the Anthropic wire."""
    result = model_server.block(0, "text", {"type": "text_delta", "text": "Done"}, text="")
    return Canned(model_server.anthropic_reply(result, stop="end_turn"))


WIRES: Mapping[str, tuple[Any, Any]] = {
    "openai": (openai_calls, openai_text),
    "openai-chat": (openai_calls, openai_text),
    "anthropic": (anthropic_calls, anthropic_text),
}


def model_of(wire: str, url: str) -> Model:
    """Return a model that speaks a wire, over our own adapter or the library's."""
    address = url.removesuffix("/v1") if wire == "anthropic" else url
    config = ModelConfig(
        name="m", provider=wire, model="m", base_url=address, api_key="sk-secret-1"
    )
    if wire == "openai":
        return OpenAIModel(config, Limits())
    made: Model = late("penstock.models.wires.pydantic_ai:PydanticAIModel")(config, Limits())
    return made


def names_in(body: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names that a request offers, and those of the calls in its history."""
    offered = [each.get("function", each)["name"] for each in body["tools"]]
    used = [
        call["function"]["name"] for m in body["messages"] for call in m.get("tool_calls") or ()
    ]
    for message in body["messages"]:
        parts = message["content"] if isinstance(message["content"], list) else []
        used += [part["name"] for part in parts if part["type"] == "tool_use"]
    return offered, used


@pytest.mark.slow("loads the libraries of two providers")
@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_works_with_any_names_of_tools_and_calls(wire: str) -> None:
    found.clear()
    calls, text = WIRES[wire]
    async with model_server.fake_server(calls(), text(), calls(), text()) as server:
        model = model_of(wire, server.url)
        agent = Agent("clerk", model=model, tools=TOOLS)
        async with memory_runtime(agents=[agent]) as runtime:
            first = await runtime.chat("Go", agent="clerk")
            second = await runtime.chat("Again", agent="clerk", session=first.session)
        await model.close()
    assert [first.content, second.content] == ["Done", "Done"]
    assert sorted(found) == ["dot a", "dot a", "line b", "line b"]
    offered, used = zip(*map(names_in, server.bodies), strict=True)
    assert offered == ([sent("shop.find"), "shop_find"],) * 4
    once = [sent(name) for name in (*(each.tool_id for each in TOOLS), *INVENTED)]
    assert list(used) == [[], once, once, once + once]
