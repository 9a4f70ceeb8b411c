"""Streams of the Responses API, as servers send them and as they break."""

import json
from typing import Any

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from penstock.core.errors import ContextTooLarge, ModelRefused, ModelUnavailable
from penstock.core.messages import Usage
from penstock.models.model import CallDelta, ModelEvent, ReasoningDelta, TextDelta
from penstock.models.wires.responses_stream import ResponseStream
from tests.kit.fakes.provider import Asked, Part, Refused, Said, Thought, event, replying
from tests.kit.fakes.responses import FakeResponses

pytestmark = pytest.mark.conformance
BODY = {"model": "gpt-6-sol", "input": []}
PARTS = (Thought("hm yes"), Said("Let me look."), Thought(""), Asked("add", {"a": 1}))
PING, UNKNOWN = b": ping\n\n", b'data: {"type": "quite.new", "output_index": 0}\n\n'


def reply(*parts: Part, stop: str = "") -> list[bytes]:
    return list(FakeResponses().events(replying(*parts, stop=stop), BODY))


def read(*blocks: bytes, most: int = 100_000) -> tuple[ResponseStream, list[ModelEvent]]:
    stream = ResponseStream(most)
    events = [found for each in blocks for found in stream.feed(each)]
    return stream, events + stream.end()


def joined(events: list[ModelEvent]) -> list[ModelEvent]:
    """Return the events with the pieces of each text joined."""
    found: list[ModelEvent] = []
    for each in events:
        match found[-1:], each:
            case [TextDelta(text)], TextDelta(more):
                found[-1] = TextDelta(text + more)
            case [ReasoningDelta(text)], ReasoningDelta(more):
                found[-1] = ReasoningDelta(text + more)
            case [CallDelta(index, name, text)], CallDelta(same, "", more) if index == same:
                found[-1] = CallDelta(index, name, text + more)
            case _:
                found.append(each)
    return found


def without(events: list[bytes], *kinds: str) -> list[bytes]:
    return [
        each for each in events if not any(f"event: {kind}\n".encode() in each for kind in kinds)
    ]


def by_ids(events: list[bytes]) -> list[bytes]:
    """Return the events as llama.cpp sends them: without indices and numbers."""
    found = [json.loads(each.partition(b"data: ")[2]) for each in events]
    odd = {"output_index", "sequence_number"}
    return [event({k: v for k, v in each.items() if k not in odd}) for each in found]


EVENTS = [
    ReasoningDelta("hm yes"),
    TextDelta("Let me look."),
    CallDelta(0, "add", '{"a": 1}'),
]
WHOLE = b"".join(reply(*PARTS))


@pytest.mark.parametrize(
    "blocks",
    [
        [WHOLE],
        [WHOLE[at : at + 1] for at in range(len(WHOLE))],
        [WHOLE.replace(b"\n", b"\r\n")],
        [WHOLE.rstrip()],
        [WHOLE + b"data: [DONE]\n\n"],
        [PING + each for each in reply(*PARTS)],
        [UNKNOWN + each for each in reply(*PARTS)],
        [each + each for each in reply(*PARTS)],
        without(reply(*PARTS), "response.output_text.delta"),
        without(reply(*PARTS), "response.function_call_arguments.delta"),
        without(
            reply(*PARTS),
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
        ),
        without(reply(*PARTS), "response.output_item.done"),
        by_ids(reply(*PARTS)),
        by_ids(without(reply(*PARTS), "response.output_item.done")),
    ],
    ids=[
        "whole",
        "single bytes",
        "CRLF",
        "no last line",
        "a last word of other APIs",
        "pings",
        "unknown events",
        "each twice",
        "text in its last event only",
        "arguments in their last event only",
        "arguments in the last event of the item only",
        "items in the last event only",
        "items named by their ids alone",
        "the same with items in the last event only",
    ],
)
def test_a_reply_is_read_however_its_bytes_arrive(blocks: list[bytes]) -> None:
    stream, events = read(*blocks)
    assert joined(events) == EVENTS
    assert (stream.finish_reason, stream.response_id) == ("tool_calls", "resp_1")
    reasoning, said, hidden, called = stream.parts or ()
    assert said == {"type": "text", "chars": 12, "id": "msg_1_1", "phase": "final_answer"}
    assert called == {
        "type": "call",
        "index": 0,
        "id": "call_1_3",
        "item": "fc_1_3",
        "arguments": '{"a": 1}',
    }
    assert (reasoning["id"], hidden["summary"]) == ("rs_1_0", [])
    assert len(reasoning["encrypted_content"]) == len(hidden["encrypted_content"]) == 64


def test_a_reply_cut_at_any_event_is_incomplete() -> None:
    events = reply(*PARTS)
    for count in range(len(events)):
        with pytest.raises(ModelUnavailable, match="cut off"):
            read(*events[:count])


def test_the_fake_sends_what_the_types_of_the_provider_allow() -> None:
    known: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for each in reply(*PARTS, Refused("No.")):
        data = each.partition(b"data: ")[2]
        assert known.validate_json(data).type == json.loads(data)["type"]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("", "stop"),
        ("max_output_tokens", "length"),
        ("content_filter", "content_filter"),
        ("max_messages", "length"),
        ("steered", "length"),
        ("quite_new", "length"),
    ],
)
def test_reasons(stop: str, reason: str) -> None:
    stream, _ = read(*reply(Said("Hi."), stop=stop))
    assert (stream.finish_reason, stream.raw_reason) == (reason, stop or "completed")
    assert (stream.parts is None) == bool(stop)


def test_a_refusal_is_text_and_ends_as_a_filter_does() -> None:
    stream, events = read(*reply(Refused("I cannot help.")))
    assert joined(events) == [TextDelta("I cannot help.")]
    assert (stream.finish_reason, stream.refusal) == ("content_filter", "I cannot help.")


def test_summaries_are_separated() -> None:
    _, events = read(
        *(
            event({"type": "response.reasoning_summary_text.delta", "delta": delta} | place)
            for delta, place in [
                ("a", {"output_index": 0, "summary_index": 0}),
                ("b", {"output_index": 0, "summary_index": 0}),
                ("c", {"output_index": 0, "summary_index": 1}),
                ("d", {"output_index": 1, "summary_index": 0}),
            ]
        ),
        event({"type": "response.completed", "response": {"status": "completed"}}),
    )
    assert events == [ReasoningDelta(each) for each in ("a", "b", "\n\nc", "\n\nd")]


def test_a_reply_that_was_not_streamed_is_read() -> None:
    last = json.loads(reply(*PARTS)[-1].partition(b"data: ")[2])["response"]
    stream, events = read(b"data:" + json.dumps(last).encode() + b"\n\n")
    assert joined(events) == EVENTS
    assert stream.finish_reason == "tool_calls"


def test_usage_counts_what_caches_held() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {
            "cached_tokens": 60,
            "cache_write_tokens": 30,
            "cache_write_tokens_details": {"ttl_12h_tokens": 10, "ttl_30m_tokens": 20},
        },
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
    }
    stream, _ = read(event({"type": "response.completed", "response": {"usage": usage}}))
    assert stream.usage == Usage(
        input_tokens=100,
        output_tokens=9,
        cached_tokens=60,
        cache_write_tokens=20,
        cache_write_long_tokens=10,
        reasoning_tokens=4,
    )


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("rate_limit_exceeded", ModelUnavailable),
        ("server_error", ModelUnavailable),
        ("vector_store_timeout", ModelUnavailable),
        ("quite_new", ModelUnavailable),
        ("invalid_prompt", ModelRefused),
        ("bio_policy", ModelRefused),
        ("misalignment_policy_violation", ModelRefused),
        ("image_too_large", ModelRefused),
        ("invalid_image_format", ModelRefused),
        ("context_length_exceeded", ContextTooLarge),
        ("insufficient_quota", ModelRefused),
    ],
)
def test_an_error_inside_the_stream_is_retried_by_its_code(code: str, error: type) -> None:
    failure = {"code": code, "message": "No."}
    for each in (
        {"type": "error", **failure},
        {"type": "error", "error": failure},
        {"type": "response.failed", "response": {"status": "failed", "error": failure}},
        {"object": "response", "status": "failed", "error": failure},
    ):
        with pytest.raises(error) as caught:
            read(b"data: " + json.dumps(each).encode() + b"\n\n")
        assert str(caught.value) == "No."
        # The queue of the model waits, as after a 429.
        is_throttled = getattr(caught.value, "is_throttled", False)
        assert is_throttled is (code == "rate_limit_exceeded")


def done(place: int, **item: Any) -> bytes:
    return event({"type": "response.output_item.done", "output_index": place, "item": item})


def ended(*blocks: bytes) -> ResponseStream:
    last = event({"type": "response.completed", "response": {"status": "completed"}})
    return read(*blocks, last)[0]


REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA"}
MESSAGE = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi"}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c_1", "name": "f", "arguments": "{}"}


@pytest.mark.parametrize(
    ("items", "parts"),
    [
        ([REASONING, MESSAGE], [REASONING, {"type": "text", "chars": 2, "id": "msg_1"}]),
        ([MESSAGE, REASONING], [{"type": "text", "chars": 2, "id": "msg_1"}]),
        (
            [{**REASONING, "encrypted_content": None}, MESSAGE, CALL],
            [{"type": "text", "chars": 2}, {"type": "call", "index": 0, "id": "c_1"}],
        ),
        (
            [{"type": "new_item", "id": "n", "of": None}, CALL],
            [
                {"type": "new_item", "id": "n"},
                {"type": "call", "index": 0, "id": "c_1", "item": "fc_1"},
            ],
        ),
        ([{"type": "call", "index": 0, "id": "x"}, MESSAGE], None),
        ([{"type": "text", "chars": 9}, MESSAGE], None),
        ([{"id": "x"}, MESSAGE], None),
        ([{**CALL, "call_id": None}], None),
    ],
    ids=[
        "reasoning and its follower",
        "reasoning without a follower",
        "reasoning that the provider cannot read again",
        "an unknown item",
        "an item named like a part",
        "another",
        "an item without a kind",
        "a call without an id",
    ],
)
def test_the_carry_has_what_the_provider_accepts_again(
    items: list[dict[str, Any]], parts: list[dict[str, Any]] | None
) -> None:
    found = ended(*(done(index, **item) for index, item in enumerate(items))).parts
    assert found == (None if parts is None else tuple(parts))


@pytest.mark.parametrize(
    "blocks",
    [
        [event({"type": "response.output_text.delta", "delta": "a"}), done(0, **MESSAGE)],
        [done(0, **REASONING), done(0, **MESSAGE)],
        [done(1, **MESSAGE), event({"type": "response.output_item.added", "output_index": 0})],
        [event({"type": "response.output_item.added", "output_index": 0, "item": MESSAGE})],
        [
            done(0, **MESSAGE),
            event({"type": "response.output_text.delta", "output_index": 0, "delta": "late"}),
        ],
    ],
    ids=["a piece without a place", "a place twice", "no item", "no end", "a late piece"],
)
def test_a_reply_out_of_order_has_no_carry(blocks: list[bytes]) -> None:
    assert ended(*blocks).parts is None


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([b"data: {no\n\n"], "a piece that is not JSON: '{no'"),
        ([b"data: " + b"[" * 9_000 + b"\n\n"], "a piece that is not JSON"),
        ([b"data: \xff\xfe\n\n"], "a piece that is not JSON"),
        (
            [event({"type": "response.function_call_arguments.delta", "output_index": 3})],
            "a piece of a call that it never began",
        ),
        (
            [
                event({"type": "response.output_item.added", "output_index": 0, "item": CALL}),
                event(
                    {
                        "type": "response.function_call_arguments.delta",
                        "output_index": 0,
                        "delta": '{"a":',
                    }
                ),
                done(0, **{**CALL, "arguments": '{"a":1,"b":2}'}),
            ],
            "the pieces of a call are not the call that the model ended",
        ),
    ],
)
def test_broken_streams_may_be_retried(blocks: list[bytes], message: str) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        read(*blocks)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [b"1", b"[]", b"null", b'"x"', b'{"type": 3}', b'{"type": null}'])
@pytest.mark.parametrize("kind", ["item", "delta", "response", "output_index"])
def test_values_of_wrong_types_are_ignored(text: bytes, kind: str) -> None:
    odd = json.loads(text)
    for name in (
        "output_item.added",
        "output_item.done",
        "output_text.delta",
        "reasoning_text.delta",
        "created",
    ):
        known = {"type": f"response.{name}", "output_index": 0, "delta": "x", "item": MESSAGE}
        stream = ended(b"data: " + text + b"\n\n", event({**known, kind: odd}))
        assert stream.finish_reason == "stop"


def test_a_reply_has_a_largest_size() -> None:
    with pytest.raises(ModelRefused, match=r"Limits\.reply_bytes"):
        read(WHOLE, most=len(WHOLE) - 1)
