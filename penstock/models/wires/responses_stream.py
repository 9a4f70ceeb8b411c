"""Converts the stream of OpenAI's Responses API to events, and to the items of its reply.

Guarantees that a reply counts as complete only after `response.completed` or `.incomplete`, that
its size is bounded by `Limits.reply_bytes`, and that any bytes lead to events or a ModelError.
Events that are not known are ignored.
Reasoning is kept as `response.output_item.done` brings it: in `.added` its encrypted content may be
incomplete. A call whose pieces contradict its last event is an error, because it would run with
wrong arguments. Proof: tests/models/wires/test_responses_stream.py.
"""

from collections.abc import Mapping
from http.client import INTERNAL_SERVER_ERROR, TOO_MANY_REQUESTS
from typing import Any

from penstock.core.errors import ModelError, ModelUnavailable
from penstock.core.json_values.json_text import parse_json
from penstock.core.messages import Usage
from penstock.models.model import CallDelta, ModelEvent, ReasoningDelta, TextDelta, failure
from penstock.models.wires.responses_items import (
    CALL,
    MESSAGE,
    REASONING,
    RESERVED,
    ReplyItem,
    carry_parts,
    contents_of,
)
from penstock.models.wires.sse import (
    ServerEvents,
    count_of,
    error_text,
    is_unpaid,
    parsed,
    refused,
    text_of,
)

_REFUSED = (
    "invalid_",
    "image_",
    "_policy",
    "unsupported_image",
    "empty_image",
    "failed_to_download_image",
    "data_residency",
    "context_length",
)
"""Parts of codes of errors that a second attempt would meet again."""


class ResponseStream:
    """Converts the bytes of one reply into events."""

    def __init__(self, reply_bytes: int) -> None:
        self.done = False
        """The last event of the reply has arrived."""
        self.withheld: Any = None
        """The provider's list of reasoning that the model did not read."""
        self.response_id = ""
        self.raw_reason = ""
        """The provider's word for the end; empty until it arrives."""
        self.chars = 0
        """Characters of the reply so far, for an estimate of its tokens."""
        self._sse = ServerEvents(reply_bytes)
        self._last = b""
        self._items: dict[int, ReplyItem] = {}
        self._ids: dict[str, int] = {}
        """Indices of items on servers that name items by their ids alone, as llama.cpp does."""
        self._calls = 0
        self._refusal: list[str] = []
        self._thought: tuple[Any, Any] | None = None
        """The summary that the last event belongs to, if that event is reasoning."""
        self._usage: dict[str, Any] = {}
        self._is_void = False
        """The items cannot be repeated as they were."""

    def feed(self, block: bytes) -> list[ModelEvent]:
        """Return the events that are complete with these bytes."""
        events: list[ModelEvent] = []
        for payload in self._sse.feed(block):
            self._take(payload, events)
        return events

    def end(self) -> list[ModelEvent]:
        """Return the last events. Raises ModelUnavailable for an incomplete reply."""
        events: list[ModelEvent] = []
        for payload in self._sse.end():
            self._take(payload, events)
        if not self.done:
            raise ModelUnavailable("the model's reply was cut off before its end")
        return events

    @property
    def refusal(self) -> str | None:
        """The words of a model that refuses to answer."""
        return "".join(self._refusal) or None

    @property
    def finish_reason(self) -> str:
        """The reason for the `Finished` event."""
        if self._refusal or self.raw_reason == "content_filter":
            return "content_filter"
        if self.raw_reason != "completed":
            return "length"
        return "tool_calls" if self._calls else "stop"

    @property
    def usage(self) -> Usage | None:
        """The tokens of the reply, as the server counts them; None if it reports none."""
        usage, details = self._usage, "input_tokens_details"
        read, written = count_of(usage, "input_tokens"), count_of(usage, "output_tokens")
        if not (read or written):
            return None
        created = count_of(usage, details, "cache_write_tokens")
        long = count_of(usage, details, "cache_write_tokens_details", "ttl_12h_tokens")
        return Usage(
            input_tokens=read,
            output_tokens=written,
            cached_tokens=count_of(usage, details, "cached_tokens"),
            cache_write_tokens=created - min(long, created),
            cache_write_long_tokens=min(long, created),
            reasoning_tokens=count_of(usage, "output_tokens_details", "reasoning_tokens"),
        )

    @property
    def parts(self) -> tuple[dict[str, Any], ...] | None:
        """The parts of the carry; None if the reply has none, or ended early."""
        if self._is_void or self.raw_reason != "completed":
            return None
        return carry_parts([self._items[index] for index in sorted(self._items)])

    def _take(self, payload: bytes, events: list[ModelEvent]) -> None:
        if self.done or payload == b"[DONE]":
            return
        if not isinstance(event := parsed(payload), dict):
            return
        number = event.get("sequence_number")
        if payload != self._last or type(number) is not int or number <= 0:  # else doubled
            self._last = payload
            self._read(event, events)

    def _read(self, event: dict[str, Any], events: list[ModelEvent]) -> None:
        match event.get("type"):
            case "response.output_text.delta":
                self._say(self._item(event, MESSAGE), text_of(event.get("delta")), events)
            case "response.function_call_arguments.delta":
                self._argue(self._call_of(event), text_of(event.get("delta")), events)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._think(event, events)
            case "response.output_item.added":
                self._begin(event, events)
            case "response.output_item.done":
                self._end_item(_placed(event), event.get("item"), events)
            case "response.refusal.delta":
                self._refuse(self._item(event, MESSAGE), text_of(event.get("delta")), events)
            case "response.function_call_arguments.done":
                self._complete(self._call_of(event), event.get("arguments"), events)
            case kind:
                self._seldom(kind, event, events)

    def _seldom(self, kind: Any, event: dict[str, Any], events: list[ModelEvent]) -> None:
        response = event.get("response")
        known: dict[str, Any] = response if isinstance(response, dict) else {}
        match kind:
            case "response.created":
                self.response_id = text_of(known.get("id"))
            case "response.completed" | "response.incomplete":
                self._finish(known, events)
            case "response.failed":
                raise stream_error(known.get("error"))
            case "error":
                raise stream_error(event.get("error") or event)
            case None if event.get("error"):
                raise stream_error(event["error"])
            case None if event.get("object") == "response":  # a reply that was not streamed
                self._finish(event, events)

    def _finish(self, response: dict[str, Any], events: list[ModelEvent]) -> None:
        if response.get("status") == "failed":
            raise stream_error(response.get("error"))
        output = response.get("output")
        for index, item in enumerate(output if isinstance(output, list) else ()):
            place = _placed({"item": item}) if self._ids else index
            known = self._items.get(self._index(place))
            if known is None or known.end is None:
                self._end_item(place, item, events)
        self._is_void = self._is_void or any(each.end is None for each in self._items.values())
        details = response.get("incomplete_details")
        reason = text_of(details.get("reason")) if isinstance(details, dict) else ""
        self.raw_reason = reason or text_of(response.get("status")) or "completed"
        self.response_id = text_of(response.get("id")) or self.response_id
        if isinstance(usage := response.get("usage"), dict):
            self._usage = usage
        self.withheld = response.get("input_transformations")
        self.done = True

    def _index(self, place: int | str) -> int:
        """Return the index of an item; -1 if the event does not tell it."""
        if isinstance(place, int):
            return place
        return self._ids.setdefault(place, len(self._ids)) if place else -1

    def _item(self, event: Mapping[str, Any], kind: str) -> ReplyItem:
        """Return the item that a piece belongs to. A piece may come without its beginning."""
        index = self._index(_placed(event))
        if index < 0:
            self._is_void = True
            index = max(self._items, default=0)
        item = self._items.get(index)
        if item is None:
            item = self._items[index] = ReplyItem(kind)
        elif item.kind != kind or item.end is not None:
            self._is_void = True
            return ReplyItem(kind)
        return item

    def _call_of(self, event: Mapping[str, Any]) -> ReplyItem:
        item = self._items.get(self._index(_placed(event)))
        if item is None or item.kind != CALL:
            raise ModelUnavailable("the model sent a piece of a call that it never began")
        return item

    def _begin(self, event: Mapping[str, Any], events: list[ModelEvent]) -> None:
        index, start = self._index(_placed(event)), event.get("item")
        if index < 0 or not isinstance(start, dict) or index in self._items:
            self._is_void = True  # doubled or out of place
            return
        item = self._items[index] = ReplyItem(text_of(start.get("type")))
        if item.kind == CALL:
            self._name(item, start, events)

    def _name(self, item: ReplyItem, start: Mapping[str, Any], events: list[ModelEvent]) -> None:
        item.call, item.call_id = self._calls, text_of(start.get("call_id"))
        self._calls += 1
        self._thought = None
        name = text_of(start.get("name"))
        self.chars += len(name)
        events.append(CallDelta(item.call, name))

    def _end_item(self, place: int | str, end: Any, events: list[ModelEvent]) -> None:
        index = self._index(place)
        if index < 0 or not isinstance(end, dict):
            self._is_void = True
            return
        kind = text_of(end.get("type"))
        item = self._items.get(index)
        if item is None:
            item = self._items[index] = ReplyItem(kind)
            if kind == CALL:
                self._name(item, end, events)
        elif item.kind != kind or item.end is not None:
            self._is_void = True  # doubled or out of place
            return
        item.end = end
        self._is_void = self._is_void or kind in RESERVED or (kind == CALL and not item.call_id)
        if kind == CALL:
            self._complete(item, end.get("arguments"), events)
            if not item.pieces:
                self._argue(item, "{}", events)
        elif kind == MESSAGE:
            self._add_missing(item, end, events)
        elif kind == REASONING and not item.pieces:
            for number, part in enumerate(contents_of(end.get("summary") or end.get("content"))):
                delta = {"output_index": place, "summary_index": number, "delta": part.get("text")}
                self._think(delta, events)

    def _add_missing(
        self, item: ReplyItem, end: Mapping[str, Any], events: list[ModelEvent]
    ) -> None:
        """Say what a message has beyond the pieces that came."""
        left = len(item.text)
        for part in contents_of(end.get("content")):
            is_refusal = part.get("type") == "refusal"
            text = text_of(part.get("refusal" if is_refusal else "text"))
            if len(text) > left:
                say = self._refuse if is_refusal else self._say
                say(item, text[left:], events)
            left = max(left - len(text), 0)

    def _complete(self, item: ReplyItem, whole: Any, events: list[ModelEvent]) -> None:
        """Compare the arguments of a call with the pieces that came, and add what is missing."""
        arguments, said = text_of(whole), item.text
        if arguments == said:
            return
        if not said:
            self._argue(item, arguments, events)
        elif arguments and not _are_equal(arguments, said):
            raise ModelUnavailable("the pieces of a call are not the call that the model ended")

    def _say(self, item: ReplyItem, text: str, events: list[ModelEvent]) -> None:
        if text:
            self._thought = None
            item.pieces.append(text)
            self.chars += len(text)
            events.append(TextDelta(text))

    def _refuse(self, item: ReplyItem, text: str, events: list[ModelEvent]) -> None:
        if text:
            self._refusal.append(text)
            self._say(item, text, events)

    def _argue(self, item: ReplyItem, piece: str, events: list[ModelEvent]) -> None:
        if piece:
            item.pieces.append(piece)
            self.chars += len(piece)
            events.append(CallDelta(item.call, "", piece))

    def _think(self, event: Mapping[str, Any], events: list[ModelEvent]) -> None:
        if not (text := text_of(event.get("delta"))):
            return
        summary = (_placed(event), event.get("summary_index"))
        if self._thought is not None and self._thought != summary:
            text = f"\n\n{text}"
        self._thought = summary
        self._item(event, REASONING).pieces.append(text)
        self.chars += len(text)
        events.append(ReasoningDelta(text))


def _placed(event: Mapping[str, Any]) -> int | str:
    """Return the index of the item that an event is about, or else its id."""
    index = event.get("output_index")
    if type(index) is int:
        return index
    item = event.get("item")
    return text_of(event.get("item_id") or (isinstance(item, dict) and item.get("id")))


def stream_error(error: Any) -> ModelError:
    """Return the ModelError for an error object inside a stream."""
    code = text_of(error.get("code")) if isinstance(error, dict) else ""
    text = error_text(error)
    if is_unpaid(code, text) or any(word in code for word in _REFUSED):
        return refused(text, code)
    is_limit = code == "rate_limit_exceeded"
    return failure(TOO_MANY_REQUESTS if is_limit else INTERNAL_SERVER_ERROR, text)


def _are_equal(one: str, other: str) -> bool:
    try:
        return bool(parse_json(one) == parse_json(other))
    except (ValueError, RecursionError):
        return False
