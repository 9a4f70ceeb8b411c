"""Which carries of earlier replies a request sends back, and how providers refuse them."""

import json
from typing import Any

from penstock.core.messages import AssistantMessage, Carry
from penstock.models.model import ModelRequest

_REFUSALS = (
    *("cannot be modified", "invalid_encrypted_content", "could not be verified"),
    *("required following item", "required 'reasoning' item", "item with id", "thought_signature"),
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


def refuses_carry(words: str) -> bool:
    """Whether the words of a provider say that it refuses what earlier replies carried."""
    # Not one pattern with `.*`: an error may repeat the whole request, and that would be searched
    # to its end from each of its words.
    text = words.lower()
    if "thinking" in text and ("signature" in text or "thinking" in text.partition("expected ")[2]):
        return True
    return any(each in text for each in _REFUSALS)


def compact(arguments: Any) -> str:
    """Return the arguments of a call as a request spells them."""
    return json.dumps(arguments, separators=(",", ":"))


def spelled(arguments: str, given: Any) -> bool:
    """Whether a request would spell these arguments as the model did."""
    return compact(given) == arguments
