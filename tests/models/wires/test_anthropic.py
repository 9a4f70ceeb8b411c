"""Streams of the Messages API, as servers send them and as they break."""

from typing import Any

import pytest

from penstock.core.errors import ModelRefused, ModelUnavailable
from penstock.core.limits import Limits
from penstock.core.messages import Usage, UserMessage
from penstock.models.model import CallDelta, ModelEvent, ModelRequest, ReasoningDelta, TextDelta
from penstock.models.providers import ModelConfig
from penstock.models.wires.anthropic import AnthropicModel, AnthropicStream, stream_error
from tests.kit.model_server import Canned, anthropic_reply, block, blocks_of, fake_server

THINKING = block(
    0,
    "thinking",
    {"type": "thinking_delta", "thinking": "hm "},
    {"type": "thinking_delta", "thinking": "yes"},
    {"type": "signature_delta", "signature": "SI"},
    {"type": "signature_delta", "signature": "G"},
    thinking="",
    signature="",
)
REDACTED = block(1, "redacted_thinking", data="EqkE")
TEXT = block(2, "text", {"type": "text_delta", "text": "Let me look."}, text="")
CALL = block(
    3,
    "tool_use",
    {"type": "input_json_delta", "partial_json": ""},
    {"type": "input_json_delta", "partial_json": '{"a":'},
    {"type": "input_json_delta", "partial_json": "1}"},
    id="toolu_1",
    name="add",
    input={},
)
REPLY = b"".join(anthropic_reply(THINKING, REDACTED, TEXT, CALL, stop="tool_use", tokens=9))
EVENTS: list[ModelEvent] = [
    ReasoningDelta("hm "),
    ReasoningDelta("yes"),
    TextDelta("Let me look."),
    CallDelta(0, "add", ""),
    CallDelta(0, "", '{"a":'),
    CallDelta(0, "", "1}"),
]
PARTS = (
    {"type": "thinking", "thinking": "hm yes", "signature": "SIG"},
    {"type": "redacted_thinking", "data": "EqkE"},
    {"type": "text", "chars": 12},
    {"type": "call", "index": 0, "id": "toolu_1"},
)


def read(*blocks: bytes, most: int = 100_000) -> tuple[AnthropicStream, list[ModelEvent]]:
    stream = AnthropicStream(most)
    events = [event for each in blocks for event in stream.feed(each)]
    return stream, events + stream.end()


def single_bytes(text: bytes) -> list[bytes]:
    return [text[at : at + 1] for at in range(len(text))]


@pytest.mark.parametrize(
    "blocks",
    [
        [REPLY],
        single_bytes(REPLY),
        [REPLY.replace(b"\n", b"\r\n")],
        [REPLY.rstrip()],
        [REPLY.replace(b"\n\n", b'\n\nevent: ping\ndata: {"type": "ping"}\n\n')],
        [REPLY.replace(b"\n\n", b'\n\ndata: {"type": "new", "index": 0}\n\n: comment\n\n')],
        [REPLY.replace(b"data: ", b"data:   ").replace(b"}\n\n", b"}   \n\n")],
    ],
    ids=["whole", "single bytes", "CRLF", "no last line", "pings", "unknown events", "blanks"],
)
def test_a_reply_is_read_however_its_bytes_arrive(blocks: list[bytes]) -> None:
    stream, events = read(*blocks)
    assert events == EVENTS
    assert stream.parts == PARTS
    assert (stream.finish_reason, stream.response_id) == ("tool_calls", "m")
    assert stream.usage == Usage(input_tokens=7, output_tokens=9)


def test_a_reply_cut_at_any_event_is_incomplete() -> None:
    events = REPLY.split(b"\n\n")
    for count in range(len(events) - 2):
        with pytest.raises(ModelUnavailable, match="cut off"):
            read(b"\n\n".join(events[: count + 1]))


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "stop"),
        ("quite_new", "stop"),
    ],
)
def test_stop_reasons(stop: str, reason: str) -> None:
    stream, _ = read(*anthropic_reply(TEXT, stop=stop))
    assert (stream.finish_reason, stream.raw_reason) == (reason, stop)
    assert (stream.refusal is not None) == (stop == "refusal")


def test_a_call_without_any_piece_has_empty_arguments() -> None:
    _, events = read(*anthropic_reply(block(0, "tool_use", id="t", name="f"), stop="tool_use"))
    assert events == [CallDelta(0, "f", ""), CallDelta(0, "", "{}")]


def test_usage_counts_all_input_and_later_figures_replace_earlier_ones() -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 7,
        "cache_creation": {"ephemeral_1h_input_tokens": 3},
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 2},
    }
    end = {"type": "message_delta", "delta": {}, "usage": usage}
    later = {**end, "usage": {"output_tokens": 6, "input_tokens": None}}
    stream, _ = read(*blocks_of(end, later, {"type": "message_stop"}))
    assert stream.usage == Usage(
        input_tokens=37,
        output_tokens=6,
        cached_tokens=20,
        cache_write_tokens=4,
        cache_write_long_tokens=3,
        reasoning_tokens=2,
    )


@pytest.mark.parametrize(
    "broken",
    [
        [*THINKING, *THINKING],
        block(0, "server_tool_use", name="web_search"),
        block(0, "thinking", {"type": "new_delta", "x": 1}, thinking=""),
        THINKING[1:],
    ],
    ids=["doubled", "a server tool", "an unknown delta", "no start"],
)
def test_a_reply_that_cannot_be_repeated_has_no_carry(broken: list[bytes]) -> None:
    stream, _ = read(*anthropic_reply(broken, stop="end_turn"))
    assert stream.parts is None


def test_an_unknown_block_is_kept_verbatim() -> None:
    stream, events = read(*anthropic_reply(block(0, "poem", lines=[1]), stop="end_turn"))
    assert (events, stream.parts) == ([], ({"type": "poem", "lines": [1]},))


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", ModelUnavailable),
        ("rate_limit_error", ModelUnavailable),
        ("api_error", ModelUnavailable),
        ("invalid_request_error", ModelRefused),
        ("authentication_error", ModelRefused),
        ("quite_new", ModelUnavailable),
    ],
)
def test_an_error_inside_the_stream(kind: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="busy"):
        read(*blocks_of({"type": "error", "error": {"type": kind, "message": "busy"}}))


@pytest.mark.parametrize(
    "data",
    [b"{", b"[]", b"1", b'{"type":"content_block_start","index":{},"content_block":{}}', b"\xff"],
)
def test_any_bytes_are_a_model_error(data: bytes) -> None:
    with pytest.raises(ModelUnavailable):
        read(b"data: " + data + b"\n\n")


def test_a_piece_of_a_call_that_never_began_fails() -> None:
    delta = {"type": "input_json_delta", "partial_json": "{"}
    event: dict[str, Any] = {"type": "content_block_delta", "index": 3, "delta": delta}
    with pytest.raises(ModelUnavailable, match="never began"):
        read(*blocks_of(event))


@pytest.mark.parametrize(
    "error",
    [
        {"type": "billing_error", "message": "Pay."},
        {"type": "api_error", "message": "Your credit balance is too low."},
    ],
)
def test_a_used_up_credit_within_a_stream_is_not_tried_again(error: dict[str, str]) -> None:
    assert isinstance(stream_error(error), ModelRefused)


def test_a_reply_without_end_is_bounded() -> None:
    with pytest.raises(ModelRefused, match="reply_bytes"):
        read(REPLY, most=100)


@pytest.mark.parametrize(
    ("kind", "is_throttled"), [("rate_limit_error", True), ("overloaded_error", False)]
)
def test_a_limit_of_requests_within_a_stream_holds_the_queue(kind: str, is_throttled: bool) -> None:
    error = stream_error({"type": kind, "message": "slow"})
    assert isinstance(error, ModelUnavailable)
    assert error.is_throttled is is_throttled


@pytest.mark.parametrize(
    ("given", "headers", "samples"),
    [
        ({}, {"x-api-key: k", "anthropic-version: 2023-06-01"}, True),
        ({"auth": "bearer"}, {"authorization: bearer k", "anthropic-version: 2023-06-01"}, True),
        ({"api_version": "2026-10-21"}, {"x-api-key: k", "anthropic-version: 2026-10-21"}, False),
    ],
)
async def test_a_gateway_gets_the_key_and_the_version_that_it_wants(
    given: dict[str, Any], headers: set[str], samples: bool
) -> None:
    said = block(0, "text", {"type": "text_delta", "text": "Hi"}, text="")
    async with fake_server(Canned(anthropic_reply(said, stop="end_turn"))) as server:
        config = ModelConfig(
            name="m",
            provider="anthropic",
            model="claude-haiku-4-5",
            base_url=server.url,
            api_key="k",
            **given,
        )
        model = AnthropicModel(config, Limits())
        asked = ModelRequest(system="", messages=[UserMessage("hi")], temperature=0.5)
        async for _ in model.stream(asked):
            pass
        await model.close()
    sent = set(server.heads[0].lower().splitlines())
    assert headers <= sent
    assert len({line for line in sent if line.startswith(("x-api-key", "authorization"))}) == 1
    assert ("temperature" in server.bodies[0]) is samples
