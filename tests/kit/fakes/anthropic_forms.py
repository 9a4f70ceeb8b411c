"""The form of a request to Anthropic's Messages API: members, roles, results and cache points."""

from collections.abc import Iterator
from typing import Any, get_type_hints

from anthropic import transform_schema
from anthropic.types import (
    DocumentBlockParam,
    ImageBlockParam,
    RedactedThinkingBlockParam,
    TextBlockParam,
    ThinkingBlockParam,
    ToolParam,
    ToolResultBlockParam,
    ToolUseBlockParam,
)
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from anthropic.types.user_message_param import UserMessageParam

MAX_POINTS = 4
BLOCKS: dict[str, Any] = {
    "text": TextBlockParam,
    "thinking": ThinkingBlockParam,
    "redacted_thinking": RedactedThinkingBlockParam,
    "tool_use": ToolUseBlockParam,
    "tool_result": ToolResultBlockParam,
    "image": ImageBlockParam,
    "document": DocumentBlockParam,
}


def unknown_members(request: dict[str, Any]) -> Iterator[str]:
    """Yield the members that the SDK's types do not have. Its validation ignores them."""
    placed: list[tuple[str, Any, Any]] = [("", request, MessageCreateParamsStreaming)]
    placed += [(f"tools.{at}", tool, ToolParam) for at, tool in enumerate(request.get("tools", ()))]
    for at, message in enumerate(request["messages"]):
        placed.append((f"messages.{at}", message, UserMessageParam))
        placed += [
            (f"messages.{at}.content.{number}", block, BLOCKS[block["type"]])
            for number, block in enumerate(message["content"])
        ]
    for place, value, kind in placed:
        for name in value.keys() - get_type_hints(kind).keys():
            yield f"{place}.{name}: Extra inputs are not permitted"


def schema_problems(schema: dict[str, Any]) -> Iterator[str]:
    """Yield errors in the schema of a reply: what the SDK would rewrite, the API refuses."""
    place = "output_config.format.schema"
    if schema.get("additionalProperties") is not False:
        yield f"{place}: additionalProperties must be false"
    try:
        is_supported = transform_schema(schema) == schema
    except ValueError as error:
        yield f"{place}: {error}"
        return
    if not is_supported:
        yield f"{place}: it has keywords that are not supported"


def message_problems(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield errors in the order of messages and results."""
    wanted: list[str] = []
    for index, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role != ("assistant" if index % 2 else "user"):
            yield f"messages.{index}: roles must alternate between user and assistant"
        if not content:
            yield f"messages.{index}: content must not be empty"
        if any(block["type"] == "text" and not block["text"] for block in content):
            yield f"messages.{index}: text content blocks must be non-empty"
        kinds = [block["type"] for block in content]
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if role == "user" and (results != wanted or "tool_result" in kinds[len(results) :]):
            yield f"messages.{index}: `tool_use` ids were found without `tool_result` blocks"
        wanted = [block["id"] for block in content if block["type"] == "tool_use"]
    if wanted:
        yield "messages: the last call has no result"


def blocks_in_order(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all blocks of a request in the order in which the provider caches them."""
    said = (block for message in request["messages"] for block in message["content"])
    return [*request.get("tools", ()), *(request.get("system") or ()), *said]


def point_problems(request: dict[str, Any]) -> Iterator[str]:
    """Yield errors in the cache points."""
    blocks = blocks_in_order(request)
    points = [block for block in blocks if "cache_control" in block]
    if len(points) > MAX_POINTS:
        yield f"A maximum of {MAX_POINTS} blocks with cache_control may be provided"
    ttls = [block["cache_control"].get("ttl", "5m") for block in points]
    if ttls != sorted(ttls):
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' one"
