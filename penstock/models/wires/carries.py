"""Which carries of earlier replies a request sends back, and how providers refuse them."""

import json
import re
from typing import Any

from penstock.core.messages import AssistantMessage, Carry
from penstock.models.model import ModelRequest

_REFUSED = re.compile(
    r"thinking.*signature|signature.*thinking|cannot be modified|expected .*thinking"
    r"|invalid_encrypted_content|could not be verified|required following item"
    r"|required 'reasoning' item|item with id|thought_signature",
    re.IGNORECASE | re.DOTALL,
)


def carry_of(message: AssistantMessage, provider: str, family: str) -> Carry | None:
    """Return the carry if this model may read it and it describes exactly this reply."""
    carry = message.carry
    if carry is None or (carry.provider, carry.family) != (provider, family):
        return None
    chars = sum(part["chars"] for part in carry.parts if part.get("type") == "text")
    calls = sorted(part["index"] for part in carry.parts if part.get("type") == "call")
    is_whole = chars == len(message.content) and calls == list(range(len(message.calls)))
    return carry if is_whole else None


def has_carries(request: ModelRequest) -> bool:
    """Whether one of the messages has a carry."""
    return any(
        isinstance(message, AssistantMessage) and message.carry is not None
        for message in request.messages
    )


def has_calls(request: ModelRequest) -> bool:
    """Whether one of the replies has calls."""
    return any(
        isinstance(message, AssistantMessage) and message.calls for message in request.messages
    )


def refuses_carry(words: str) -> bool:
    """Whether the words of a provider say that it refuses what earlier replies carried."""
    return _REFUSED.search(words) is not None


def compact(arguments: Any) -> str:
    """Return the arguments of a call as a request spells them."""
    return json.dumps(arguments, separators=(",", ":"))


def spelled(arguments: str, given: Any) -> bool:
    """Whether a request would spell these arguments as the model did."""
    return compact(given) == arguments
