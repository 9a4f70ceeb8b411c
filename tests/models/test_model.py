"""Tokens and their price."""

import pytest
from msgspec.structs import replace

from penstock.core.call import ToolCall
from penstock.core.errors import ModelError, ModelRefused, ModelUnavailable
from penstock.core.ids import CallId
from penstock.core.limits import Limits
from penstock.core.messages import AssistantMessage, Usage, UserMessage
from penstock.models.model import (
    Finished,
    ModelCard,
    ModelRequest,
    ToolDefinition,
    estimate,
    failure,
    spent,
    usage_of,
    wait_seconds,
)
from penstock.models.prices import Prices

FREE = ModelCard(model_id="m", name="m", provider="p")
PRICED = ModelCard(model_id="m", name="m", provider="p", prices=Prices(input=3, output=15))


def test_a_price_is_per_million_tokens() -> None:
    assert spent(PRICED, 1000, 100).cost_usd == 0.0045
    assert spent(FREE, 1000, 100) == Usage(input_tokens=1000, output_tokens=100)


@pytest.mark.parametrize(
    ("card", "given", "is_usual", "cost"),
    [
        (PRICED, None, True, 0.0045),
        (PRICED, 0.25, True, 0.25),
        (PRICED, 0.0, True, 0.0),
        (PRICED, None, False, None),
        (replace(PRICED, prices=Prices(input=3)), None, True, None),
        (FREE, None, True, None),
    ],
    ids=["of the card", "of the model", "for nothing", "other tier", "half a price", "unknown"],
)
def test_a_reply_without_a_price_has_that_of_the_card(
    card: ModelCard, given: float | None, is_usual: bool, cost: float | None
) -> None:
    usage = Usage(input_tokens=1000, output_tokens=100, cost_usd=given)
    found = usage_of(card, Finished("stop", usage, is_usual=is_usual))
    assert found == replace(usage, cost_usd=cost)


@pytest.mark.parametrize(
    "card", [replace(PRICED, prices=Prices(output=15)), replace(PRICED, prices=Prices(input=3))]
)
def test_a_model_with_half_a_price_has_none(card: ModelCard) -> None:
    assert spent(card, 1000, 100).cost_usd is None


def test_uncounted_text_is_estimated_at_four_characters_per_token() -> None:
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


@pytest.mark.parametrize(
    ("attempt", "error", "seconds"),
    [
        (1, ModelUnavailable(), 1),
        (2, ModelUnavailable(), 4),
        (3, ModelUnavailable(), None),
        (1, ModelRefused(), None),
        (1, ModelUnavailable(retry_after=0), 1),
        (1, ModelUnavailable(retry_after=2.5), 2.5),
        (1, ModelUnavailable(retry_after=30), 30),
        (2, ModelUnavailable(retry_after=3600), 30),
    ],
)
def test_waits(attempt: int, error: ModelError, seconds: float | None) -> None:
    """2 more tries, waits 1 s and 4 s, `Retry-After` up to 30 s honoured."""
    assert wait_seconds(attempt, error, Limits()) == seconds


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_transient_failures_are_retryable(status: int) -> None:
    """Retryable failures: connect, 408, 409, 429, 5xx, cut stream."""
    error = failure(status, "busy", 2)
    assert isinstance(error, ModelUnavailable)
    assert (str(error), error.retry_after) == ("busy", 2)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422])
def test_permanent_failures_are_refusals(status: int) -> None:
    assert isinstance(failure(status, "no"), ModelRefused)
