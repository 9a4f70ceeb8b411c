"""Parses the stream of an OpenAI-compatible server, in all the variants that servers send.

Guarantees that a reply counts as complete only if the server said so (`[DONE]` or a finish reason;
otherwise ModelUnavailable, which may be retried), that its size is bounded by
`Limits.reply_bytes`, and that any bytes lead to events or a ModelError, never another exception.

The hard part is which call a piece of a tool call belongs to. Servers send an index, or an id, or
neither; some repeat name and id in each piece, some send several calls under one index. `_slot` and
`_starts_new_call` decide. Each variant is a row in tests/models/wires/test_openai_stream.py.
"""

import json
from typing import Any, TypeGuard

from msgspec import Struct, field

from penstock.core.errors import ModelError, ModelRefused, ModelUnavailable
from penstock.core.json_values.json_text import parse_json
from penstock.core.messages import Usage
from penstock.models.model import CallDelta, ModelEvent, ReasoningDelta, TextDelta, failure
from penstock.models.wires.sse import (
    count_of,
    error_code,
    error_text,
    is_unpaid,
    parsed,
    refused,
    text_of,
)

_REASONS = {
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_REFUSALS = ("invalid", "auth", "permission", "not_found", "unsupported", "context")


class _Slot(Struct, eq=False):
    """A call that is being streamed."""

    index: int
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ChatStream:
    """Converts the bytes of one reply into events."""

    def __init__(self, reply_bytes: int) -> None:
        self.reason = ""
        """The server's finish reason; empty until it arrives."""
        self.done = False
        """The server has sent `[DONE]`."""
        self.chars = 0
        """Characters of the reply so far, for an estimate of its tokens."""
        self.response_id = ""
        self.reasoning_field = ""
        """The field that brought reasoning, as the next request names it."""
        self._usage: dict[str, Any] = {}
        self._refusal: list[str] = []
        self._left = reply_bytes
        self._line: list[bytes] = []
        self._slots: dict[int, _Slot] = {}
        self._calls: list[_Slot] = []
        self._named: list[_Slot] = []
        """Calls named in the current delta: within one delta, each name is a call of its own."""

    def feed(self, block: bytes) -> list[ModelEvent]:
        """Return the events that are complete with these bytes."""
        self._left -= len(block)
        if self._left < 0:
            raise ModelRefused("the model's reply is longer than Limits.reply_bytes allows")
        # Kept in pieces: joining at each block would be quadratic for a line of megabytes.
        if b"\n" not in block:
            self._line.append(block)
            return []
        lines = b"".join([*self._line, block]).split(b"\n")
        self._line = [lines.pop()]
        events: list[ModelEvent] = []
        for line in lines:
            self._read(line, events)
        return events

    def end(self) -> list[ModelEvent]:
        """Return the events of the last line. Raises ModelUnavailable for an incomplete reply."""
        events: list[ModelEvent] = []
        self._read(b"".join(self._line), events)
        self._line = []
        if not self.done and not self.reason:
            raise ModelUnavailable("the model's reply was cut off before its end")
        return events

    @property
    def finish_reason(self) -> str:
        """The reason for the `Finished` event."""
        if self._refusal:
            return "content_filter"
        return _REASONS.get(self.reason) or ("tool_calls" if self._calls else "stop")

    @property
    def has_calls(self) -> bool:
        """Whether the reply asks for calls."""
        return bool(self._calls)

    @property
    def refusal(self) -> str | None:
        """The words of a model that refuses to answer."""
        return "".join(self._refusal) or None

    @property
    def usage(self) -> Usage | None:
        """The tokens of the reply, as the server counts them; None if it reports none."""
        usage, details = self._usage, "prompt_tokens_details"
        read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if not (_is_count(read) and _is_count(written)):
            return None
        cached = count_of(usage, details, "cached_tokens")
        return Usage(
            input_tokens=read,
            output_tokens=written,
            cached_tokens=cached or count_of(usage, "prompt_cache_hit_tokens"),  # DeepSeek
            cache_write_tokens=count_of(usage, details, "cache_write_tokens"),
            reasoning_tokens=count_of(usage, "completion_tokens_details", "reasoning_tokens"),
        )

    def read_chunk(self, chunk: Any, events: list[ModelEvent]) -> None:
        """Append the events of one parsed chunk, or of a reply that was not streamed."""
        if not isinstance(chunk, dict):
            return
        if chunk.get("error"):
            raise stream_error(chunk["error"])
        if (usage := chunk.get("usage")) and isinstance(usage, dict):
            self._usage = usage
        self.response_id = self.response_id or text_of(chunk.get("id"))
        choices = chunk.get("choices")
        if not choices or not isinstance(choices, list) or not isinstance(choices[0], dict):
            return
        choice = choices[0]
        if reason := choice.get("finish_reason"):
            self.reason = str(reason)
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self._read_delta(delta, events)

    def _read(self, line: bytes, events: list[ModelEvent]) -> None:
        if line.startswith(b"data:"):
            text = line[5:].decode("utf-8", "replace").strip()
        elif line.startswith(b"error:"):
            text = '{"error":' + line[6:].decode("utf-8", "replace") + "}"
        else:
            return
        if text == "[DONE]":
            self.done = True
        elif text:
            self.read_chunk(parsed(text), events)

    def _read_delta(self, delta: dict[str, Any], events: list[ModelEvent]) -> None:
        for name in _REASONING_FIELDS:
            if (reasoning := delta.get(name)) and isinstance(reasoning, str):
                self.reasoning_field = name
                self.chars += len(reasoning)
                events.append(ReasoningDelta(reasoning))
                break
        if refusal := text_of(delta.get("refusal")):
            self._refusal.append(refusal)
        content = delta.get("content") or refusal
        if content and (text := content if isinstance(content, str) else _joined(content)):
            self.chars += len(text)
            events.append(TextDelta(text))
        if calls := delta.get("tool_calls"):
            self._named = []
            for call in calls if isinstance(calls, list) else [calls]:
                if isinstance(call, dict):
                    self._read_call(call, call.get("function"), events)
        elif call := delta.get("function_call"):
            self._named = []
            self._read_call({"index": 0}, call, events)

    def _read_call(self, call: dict[str, Any], function: Any, events: list[ModelEvent]) -> None:
        fields = function if isinstance(function, dict) else {}
        name, arguments = text_of(fields.get("name")), fields.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        slot = self._slot(call.get("index"), text_of(call.get("id")), name)
        if name:
            self._named.append(slot)
        if name and not slot.name:
            slot.name = name
            self.chars += len(name)
            events.append(CallDelta(slot.index, name, arguments or ""))
        elif arguments:
            events.append(CallDelta(slot.index, "", arguments))
        if arguments:
            self.chars += len(arguments)
            slot.arguments.append(arguments)

    def _slot(self, index: Any, call_id: str, name: str) -> _Slot:
        """Return the call that a piece belongs to: by index, by id, or else the last one."""
        if isinstance(index, int):
            slot = self._slots.get(index)
        else:
            known = (slot for slot in self._calls if call_id and slot.call_id == call_id)
            slot = next(known, self._calls[-1] if self._calls else None)
        if slot is None or (
            name and (slot in self._named or _starts_new_call(slot, call_id, name))
        ):
            slot = _Slot(len(self._calls), call_id)
            self._calls.append(slot)
            if isinstance(index, int):
                self._slots[index] = slot
        slot.call_id = slot.call_id or call_id
        return slot


def stream_error(error: Any) -> ModelError:
    """Return the ModelError for an error object inside a stream."""
    text, code = error_text(error), error_code(error)
    if is_unpaid(code, text):
        return ModelRefused(text)
    match error:
        case {"code": int(status)} | {"status": int(status)}:
            return failure(status, text)
        case {"type": str(kind)} | {"code": str(kind)} if any(w in kind for w in _REFUSALS):
            return refused(text, kind)
        case _:
            return ModelUnavailable(text)


def _starts_new_call(slot: _Slot, call_id: str, name: str) -> bool:
    """Whether a piece with a name starts a new call under the index of an earlier one."""
    if not slot.name:
        return False
    if name != slot.name:
        return True
    if not slot.arguments:
        return bool(call_id and slot.call_id and call_id != slot.call_id)
    # The same name again: a repetition if the arguments are incomplete, else another call.
    try:
        parse_json("".join(slot.arguments))
    except (ValueError, RecursionError):
        return False
    return True


def _joined(content: Any) -> str:
    """Return the text of a content that is a list of parts."""
    parts = content if isinstance(content, list) else [content]
    return "".join([text_of(part.get("text")) for part in parts if isinstance(part, dict)])


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0
