"""The tokens of a reply, counted by the provider or estimated, and their price if known."""

import json
import math
from collections.abc import Sequence

from penstock.core.messages import AssistantMessage, Message, Usage
from penstock.core.text import CHARACTERS_PER_TOKEN
from penstock.models.model import ModelCard, ModelRequest, ToolDefinition

PRICED_TOKENS = 1_000_000


def spent(card: ModelCard, input_tokens: int, output_tokens: int) -> Usage:
    """Return the usage of one reply, with its price if the model has one."""
    cost = price(card, input_tokens, output_tokens)
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost)


def price(card: ModelCard, input_tokens: int, output_tokens: int) -> float | None:
    """Return the price of these tokens in USD; None if the model has no price."""
    if card.input_price is None or card.output_price is None:
        return None
    total = input_tokens * card.input_price + output_tokens * card.output_price
    return total / PRICED_TOKENS


def estimate(card: ModelCard, request: ModelRequest, output_chars: int) -> Usage:
    """Estimate the usage of a reply whose provider reports none."""
    chars = len(request.system) + _chars(request.messages)
    chars += sum(map(_tool_chars, request.tools))
    return spent(card, _tokens(chars), _tokens(output_chars))


def tool_tokens(tool: ToolDefinition) -> int:
    """Estimate the tokens that a tool adds to every request."""
    return _tokens(_tool_chars(tool))


def _tool_chars(tool: ToolDefinition) -> int:
    schema = json.dumps(dict(tool.parameters), separators=(",", ":"))
    return len(tool.name) + len(tool.description) + len(schema)


def _chars(messages: Sequence[Message]) -> int:
    total = 0
    for message in messages:
        total += len(message.content)
        if isinstance(message, AssistantMessage):
            total += sum(len(str(call.arguments)) for call in message.calls)
    return total


def _tokens(chars: int) -> int:
    return math.ceil(chars / CHARACTERS_PER_TOKEN)
