"""Tokens and their price."""

import pytest
from msgspec.structs import replace

from penstock.core.call import ToolCall
from penstock.core.ids import CallId
from penstock.core.messages import AssistantMessage, Usage, UserMessage
from penstock.models.model import ModelCard, ModelRequest, ToolDefinition
from penstock.models.usage import estimate, price, spent

FREE = ModelCard(model_id="m", name="m", provider="p")
PRICED = ModelCard(model_id="m", name="m", provider="p", input_price=3, output_price=15)


def test_a_price_is_per_million_tokens() -> None:
    assert spent(PRICED, 1000, 100).cost_usd == 0.0045
    assert spent(FREE, 1000, 100) == Usage(input_tokens=1000, output_tokens=100)


@pytest.mark.parametrize(
    "card", [replace(PRICED, input_price=None), replace(PRICED, output_price=None)]
)
def test_a_model_with_half_a_price_has_none(card: ModelCard) -> None:
    assert spent(card, 1000, 100).cost_usd is None
    assert price(card, 1000, 100) is None


def test_what_nobody_counted_is_a_token_for_four_characters() -> None:
    call = ToolCall(CallId("c"), "add", {"a": 1})
    request = ModelRequest(
        system="brief",
        messages=[UserMessage("hello"), AssistantMessage("", (call,))],
        tools=[ToolDefinition(name="add", description="Add", parameters={})],
    )
    assert estimate(FREE, ModelRequest(system="", messages=[UserMessage("four")]), 4) == Usage(
        input_tokens=1, output_tokens=1
    )
    assert estimate(FREE, request, 9) == Usage(input_tokens=7, output_tokens=3)
