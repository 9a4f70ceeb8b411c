"""Tools that read outputs which were truncated in the conversation."""

import json
from collections.abc import Iterator
from typing import Any

from penstock.core.call import CallPath, Effect
from penstock.core.call_errors import ToolFailed
from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Json
from penstock.core.events.events import CallSettled
from penstock.core.json_values.json_text import compact
from penstock.core.text import cut
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec

MAX_BYTES = 16_384
_NAMED = 5
_AROUND = 400
"""Characters of a result around the part that was read."""
JSON, TEXT = "application/json", "text/plain"


class ReadArtifact:
    """Reads a truncated output in parts."""

    spec = ToolSpec(
        tool_id="read_tool_result_artifact",
        description=(
            "Read a part of a tool result that was truncated in the conversation, by the artifact "
            "id of its truncation mark. json_pointer picks a part, offset and limit a range: items "
            "of an array, else bytes. Returns data, has_more and the total."
        ),
        input_schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["artifact_id"],
            "properties": {
                "artifact_id": {"type": "string"},
                "json_pointer": {
                    "type": "string",
                    "pattern": "^(/.*)?$",
                    "description": "Such as /results/3/title; without it the whole output.",
                },
                "offset": {"type": "integer", "minimum": 0},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_BYTES},
            },
        },
        effect=Effect.READ,
        is_global=True,
    )

    def preview(self, output: Any) -> str | None:
        """Return how much was read."""
        if "returned_items" in output:
            return f"Read {output['returned_items']} of {output['total_items']} items"
        return f"Read {output['returned_bytes']} of {output['total_bytes']} bytes"

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return a part of one output of this task."""
        settled = _find(invocation, input["artifact_id"])
        text = await invocation.edition.resources.artifacts.text(settled)
        value = _at(text if settled.is_text else json.loads(text), input.get("json_pointer", ""))
        offset, limit = input.get("offset", 0), input.get("limit", MAX_BYTES)
        room = _room(invocation)
        if isinstance(value, list):
            return _items(value, offset, limit, room=room)
        is_text = isinstance(value, str)
        whole = (value if is_text else compact(value)).encode()
        kind = {"content_type": TEXT if is_text else JSON}
        while len(compact(part := _bytes(whole, offset, limit) | kind)) > room and limit > 1:
            limit = limit * 3 // 4
        return part


class ListArtifacts:
    """Lists the outputs that were truncated."""

    spec = ToolSpec(
        tool_id="list_tool_result_artifacts",
        description=(
            "List the tool outputs of this task that were truncated in the conversation, newest "
            "first, each with artifact_id, tool, size and beginning. Use it when the id is gone "
            "from the conversation; read one with read_tool_result_artifact."
        ),
        input_schema={
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "tool_name": {"type": "string", "description": "Only outputs of this tool."},
                "query": {
                    "type": "string",
                    "description": "Only outputs that contain this text.",
                },
                "limit": {"type": "integer", "minimum": 1, "maximum": 20},
                "offset": {"type": "integer", "minimum": 0},
            },
        },
        effect=Effect.READ,
        is_global=True,
    )

    def preview(self, output: Any) -> str | None:
        """Return the number of entries."""
        number = output["total_entries"]
        return f"{number} artifact" if number == 1 else f"{number} artifacts"

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the entries, newest first."""
        kept = list(_kept(invocation))
        kept.reverse()
        if name := input.get("tool_name"):
            kept = [each for each in kept if each[1].tool_id == name]
        if query := input.get("query", "").casefold():
            kept = [each for each in kept if query in _searched(each[1])]
        offset, limit = input.get("offset", 0), input.get("limit", 10)
        after = offset + limit
        text_of = invocation.edition.resources.artifacts.text
        return {
            "entries": [
                _entry(number, settled, len((await text_of(settled)).encode()))
                for number, settled in kept[offset:after]
            ],
            "has_more": after < len(kept),
            "next_offset": after if after < len(kept) else None,
            "total_entries": len(kept),
        }


def _kept(invocation: Invocation) -> Iterator[tuple[int, CallSettled]]:
    """Yield the truncated outputs of this task, with their place among its settled calls."""
    settled: dict[CallPath, CallSettled] = invocation.ledger.task.settled
    for number, call in enumerate(settled.values(), start=1):
        if call.artifact_id is not None:
            yield number, call


def _find(invocation: Invocation, artifact_id: str) -> CallSettled:
    kept = {str(each.artifact_id): each for _, each in _kept(invocation)}
    if settled := kept.get(artifact_id):
        return settled
    hint = did_you_mean(artifact_id, kept)
    raise ToolFailed(
        f"this task has no artifact {artifact_id!r}.{hint}",
        suggestion=f"This task has {', '.join(list(kept)[-_NAMED:]) or 'none'}.",
        details={"reason": "not_found"},
    )


def _room(invocation: Invocation) -> int:
    """Return how many characters the result may have, so that it is not truncated again."""
    most = invocation.caller.clip_at
    return MAX_BYTES + _AROUND if most is None else max(min(most, MAX_BYTES), 2 * _AROUND)


def _at(value: Any, pointer: str) -> Any:
    """Return the value at a JSON Pointer."""
    for number, part in enumerate(pointer.split("/")[1:], start=1):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdigit() and _has(value, key):
            value = value[int(key)]
        else:
            reached = "/".join(pointer.split("/")[:number]) or "/"
            raise ToolFailed(
                f"nothing is at {cut(pointer, 200)!r}: at {reached} {_inside(value)}",
                suggestion="Read the output without json_pointer to see its parts.",
                details={"reason": "not_found"},
            )
    return value


def _has(value: list[Any], key: str) -> bool:
    return len(key) <= len(str(len(value))) and int(key) < len(value)


def _inside(value: Any) -> str:
    if isinstance(value, dict):
        return f"is an object with {', '.join(map(repr, list(value)[:10]))}"
    if isinstance(value, list):
        return f"is an array of {len(value)} items"
    return "is a value without parts"


def _items(value: list[Any], offset: int, limit: int, *, room: int) -> dict[str, Any]:
    """Return the requested items, as many as fit."""
    data: list[Any] = []
    size, most = 2, room - _AROUND
    for item in value[offset : offset + limit]:
        size += len(compact(item).encode()) + 1
        if size > most and data:
            break
        data.append(item)
    if size > most and len(data) == 1:
        raise ToolFailed(
            f"item {offset} alone has {size} bytes, at most {most} can be read at once",
            suggestion=f"Read it with json_pointer …/{offset}, and offset and limit inside it.",
            details={"reason": "too_large"},
        )
    return {
        "data": data,
        "content_type": JSON,
        "offset": offset,
        "has_more": offset + len(data) < len(value),
        "returned_bytes": len(compact(data).encode()),
        "total_bytes": len(compact(value).encode()),
        "returned_items": len(data),
        "total_items": len(value),
    }


def _bytes(whole: bytes, offset: int, limit: int) -> dict[str, Any]:
    """Return bytes as text, without splitting a character."""
    data = whole[offset : offset + limit].decode(errors="ignore")
    while not data and offset + limit < len(whole):
        limit += 1
        data = whole[offset : offset + limit].decode(errors="ignore")
    returned = len(data.encode())
    return {
        "data": data,
        "offset": offset,
        "has_more": offset + returned < len(whole),
        "returned_bytes": returned,
        "total_bytes": len(whole),
    }


def _entry(number: int, settled: CallSettled, size: int) -> dict[str, Any]:
    return {
        "artifact_id": settled.artifact_id,
        "tool_name": settled.tool_id,
        "summary": settled.preview or "",
        "content_type": TEXT if settled.is_text else JSON,
        "size_bytes": size,
        "first_seen_sequence": number,
        "preview": (settled.context or "")[:200],
    }


def _searched(settled: CallSettled) -> str:
    return f"{settled.tool_id} {settled.preview} {settled.context}".casefold()


TOOLS = (ReadArtifact(), ListArtifacts())
