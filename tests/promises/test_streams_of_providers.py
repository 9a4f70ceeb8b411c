"""Any stream of a provider leads to events or a ModelError, never to another exception."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.core.errors import ModelError
from penstock.core.messages import AssistantMessage, Carry
from penstock.models.model import ModelEvent, TextDelta
from penstock.models.wires.anthropic import AnthropicStream
from penstock.models.wires.carries import carry_of
from penstock.models.wires.openai_stream import ChatStream
from penstock.models.wires.responses_stream import ResponseStream

Stream = AnthropicStream | ChatStream | ResponseStream
KINDS: dict[type[Stream], tuple[str, ...]] = {
    AnthropicStream: (
        "message_start", "content_block_start", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop", "message", "error", "text", "thinking", "tool_use",
        "redacted_thinking", "text_delta", "thinking_delta", "signature_delta", "input_json_delta",
    ),
    ChatStream: ("function", "text"),
    ResponseStream: (
        "response.created", "response.output_item.added", "response.output_item.done",
        "response.output_text.delta", "response.refusal.delta", "response.completed",
        "response.reasoning_summary_text.delta", "response.function_call_arguments.delta",
        "response.function_call_arguments.done", "response.incomplete", "response.failed", "error",
        "message", "function_call", "reasoning", "output_text", "refusal", "text", "call",
    ),
}  # fmt: skip
KEYS = (
    "arguments", "call_id", "choices", "code", "content", "content_block", "delta", "error",
    "finish_reason", "function", "function_call", "id", "incomplete_details", "index", "input",
    "item", "item_id", "message", "name", "object", "output", "output_index", "partial_json",
    "part", "reason", "reasoning", "reasoning_content", "refusal", "response", "sequence_number",
    "signature", "status", "stop_details", "stop_reason", "summary", "summary_index", "text",
    "thinking", "tool_calls", "usage",
)  # fmt: skip


def payloads(kind: type[Stream]) -> st.SearchStrategy[Any]:
    """Return JSON with the words of an API, in any place."""
    words = st.sampled_from([*KINDS[kind], "completed", "a", "b", "", "{}", '{"a":1}', "response"])
    leaves = words | st.none() | st.booleans() | st.integers(-1, 3) | st.just(1.5)
    inner = st.recursive(
        leaves, lambda each: st.lists(each, max_size=2) | records(each, words), max_leaves=6
    )
    return records(inner, words)


def records(
    values: st.SearchStrategy[Any], words: st.SearchStrategy[str]
) -> st.SearchStrategy[dict[str, Any]]:
    known = st.dictionaries(st.sampled_from(KEYS), values, max_size=4)
    return st.builds(lambda kind, rest: {"type": kind, **rest}, words, known)


DRAWN = {kind: payloads(kind) for kind in KINDS}


def heard(stream: Stream, blocks: list[bytes]) -> list[ModelEvent]:
    """Read a stream to its end, or to its error; then what an adapter asks of it."""
    found: list[ModelEvent] = []
    try:
        for block in blocks:
            found += stream.feed(block)
        found += stream.end()
    except ModelError:
        return found
    assert stream.finish_reason in {"stop", "tool_calls", "length", "content_filter"}
    usage = stream.usage
    assert usage is None or usage.input_tokens >= 0
    parts = None if isinstance(stream, ChatStream) else stream.parts
    if parts:
        text = "".join(each.text for each in found if isinstance(each, TextDelta))
        carry = Carry("p", "m", "", parts)
        json.dumps(carry.parts)
        carry_of(AssistantMessage(text, (), carry), "p", "m")
    return found


def lines(events: list[Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events)


READERS: list[Callable[[int], Stream]] = [AnthropicStream, ChatStream, ResponseStream]


@pytest.mark.slow("draws hundreds of streams")
@pytest.mark.parametrize("kind", [AnthropicStream, ChatStream, ResponseStream])
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_json_leads_to_events_or_a_model_error(kind: type[Stream], data: st.DataObject) -> None:
    events = data.draw(st.lists(DRAWN[kind], max_size=4))
    assert all(isinstance(each, ModelEvent) for each in heard(kind(100_000), [lines(events)]))


@pytest.mark.parametrize("make", READERS)
@settings(max_examples=30, deadline=None)
@given(blocks=st.lists(st.binary(max_size=20) | st.sampled_from([b"data:", b"\n", b"{", b"}"])))
@example(blocks=[b"data: {}\n\n", b"data: \x00\n\n"])
@example(blocks=[b"error: {\n", b"data: [DONE]\n\n"])
def test_any_bytes_lead_to_events_or_a_model_error(
    make: Callable[[int], Stream], blocks: list[bytes]
) -> None:
    assert all(isinstance(each, ModelEvent) for each in heard(make(1000), blocks))


@pytest.mark.slow("draws hundreds of streams")
@pytest.mark.parametrize("make", READERS)
@settings(max_examples=20, deadline=None)
@given(data=st.data(), size=st.integers(1, 40))
def test_events_do_not_depend_on_the_blocks(
    make: Callable[[int], Stream], data: st.DataObject, size: int
) -> None:
    text = lines(data.draw(st.lists(DRAWN[ResponseStream], max_size=4)))
    blocks = [text[at : at + size] for at in range(0, len(text), size)]
    assert heard(make(100_000), blocks) == heard(make(100_000), [text]) or not text
