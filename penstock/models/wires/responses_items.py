"""The items of a reply of OpenAI's Responses API, and the parts of the carry that repeat them.

The provider stores nothing, so the next request repeats the reply: its text and its calls are in
the conversation, and the carry has the rest, such as encrypted reasoning and the ids of items.
Items of unknown kinds are repeated as they came. Proof: tests/models/wires/test_responses_items.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from penstock.core.json_values.json_text import parse_json
from penstock.models.wires.carries import spelled
from penstock.models.wires.sse import text_of

MESSAGE, CALL, REASONING = "message", "function_call", "reasoning"
RESERVED = {"", "text", "call"}
"""Kinds of items that a part of a carry cannot have."""


class ReplyItem(Struct):
    """An item of a reply, as far as it has arrived."""

    kind: str
    pieces: list[str] = field(default_factory=list)
    """Text of a message or of reasoning, or the arguments of a call."""
    call: int = -1
    call_id: str = ""
    end: dict[str, Any] | None = None
    """The whole item, as its last event brings it."""

    @property
    def text(self) -> str:
        """Its text or its arguments, as far as they have arrived."""
        return "".join(self.pieces)


def carry_parts(items: Sequence[ReplyItem]) -> tuple[dict[str, Any], ...]:
    """Return the parts of the carry of a complete reply with these items."""
    parts = [part for item in items if (part := _part(item)) is not None]
    # The provider refuses a reasoning item without the one that followed it.
    while parts and parts[-1]["type"] == REASONING:
        parts.pop()
    if all(_can_return(part) for part in parts):
        return tuple(parts)
    return tuple([_without_id(part) for part in parts if part["type"] in {"text", "call"}])


def contents_of(values: Any) -> list[dict[str, Any]]:
    """Return the objects in the content of an item; none if it is not a list."""
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _part(item: ReplyItem) -> dict[str, Any] | None:
    """Return an item as a part of the carry."""
    end = item.end or {}
    if item.kind == MESSAGE:
        named = {name: end[name] for name in ("id", "phase") if text_of(end.get(name))}
        return {"type": "text", "chars": len(item.text), **named} if item.pieces else None
    if item.kind != CALL:
        return {name: value for name, value in end.items() if value is not None}
    part: dict[str, Any] = {"type": "call", "index": item.call, "id": item.call_id}
    if item_id := text_of(end.get("id")):
        part["item"] = item_id
    if not _is_usual(item.text):
        part["arguments"] = item.text
    return part


def _can_return(part: Mapping[str, Any]) -> bool:
    """Whether the provider knows the part by its content: nothing is stored there."""
    if part["type"] != REASONING:
        return True
    return bool(part.get("encrypted_content") or part.get("content"))


def _without_id(part: dict[str, Any]) -> dict[str, Any]:
    dropped = "id" if part["type"] == "text" else "item"
    return {name: value for name, value in part.items() if name != dropped}


def _is_usual(arguments: str) -> bool:
    try:
        return spelled(arguments, parse_json(arguments))
    except (ValueError, RecursionError):
        return True  # the call is refused; a request repeats what is left of it
