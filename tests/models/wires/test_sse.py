"""Server-sent events of providers, in whatever blocks they arrive, and the errors inside them."""

import time
from typing import Any

import pytest

from penstock.core.errors import ContextTooLarge, ModelError, ModelRefused, ModelUnavailable
from penstock.models.wires.sse import (
    ServerEvents,
    count_of,
    error_code,
    error_text,
    parsed,
    refused,
    text_of,
    without_key,
)

STREAM = (
    b'event: a\ndata: {"x": 1}\n\n: ping\n\ndata:  two\ndata: lines \n\nid: 3\ndata:\n\ndata: end'
)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_payloads_are_found_however_the_bytes_arrive(size: int, newline: bytes) -> None:
    text = STREAM.replace(b"\n", newline)
    lines = ServerEvents(1000)
    blocks = [text[at : at + size] for at in range(0, len(text), size)]
    found = [payload for block in blocks for payload in lines.feed(block)] + lines.end()
    assert found == [b'{"x": 1}', b"two" + newline[:-1] + b"\n lines", b"end"]


def test_a_line_of_megabytes_in_pieces_costs_as_much_as_its_bytes() -> None:
    lines = ServerEvents(10_000_000)
    before = time.process_time()
    for _ in range(20_000):
        assert lines.feed(b"x" * 100) == []
    assert time.process_time() - before < 0.5


def test_a_reply_has_a_largest_size() -> None:
    lines = ServerEvents(4)
    assert lines.feed(b"data") == []
    with pytest.raises(ModelRefused, match=r"Limits\.reply_bytes"):
        lines.feed(b":")


@pytest.mark.parametrize("text", [b"{", "no", b"\xff", b"NaN", b"[" * 9_000])
def test_what_is_not_json_may_be_retried(text: bytes | str) -> None:
    with pytest.raises(ModelUnavailable, match="a piece that is not JSON"):
        parsed(text)


@pytest.mark.parametrize(
    ("error", "text", "code"),
    [
        ({"error": {"message": "No.", "type": "t", "code": "c"}}, "No.", "c"),
        ({"error": {"message": "No.", "type": "t", "code": None}}, "No.", "t"),
        ({"type": "error", "error": {"message": "No.", "type": "t"}}, "No.", "t"),
        ({"detail": "No."}, "No.", ""),
        ({"error": "No."}, "No.", ""),
        ("No.", "No.", ""),
        ([1], "[1]", ""),
        (None, "null", ""),
        ({"error": {"code": 3}}, '{"code": 3}', ""),
    ],
)
def test_an_error_of_any_shape_has_a_message(error: Any, text: str, code: str) -> None:
    assert (error_text(error), error_code(error)) == (text, code)


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", "", ContextTooLarge),
        ("Your input exceeds the window.", "context_length_exceeded", ContextTooLarge),
        ("This model's maximum context length is 8192 tokens.", "x", ContextTooLarge),
        ("the request exceeds the available context size", "", ContextTooLarge),
        ("messages: too many images", "invalid_request_error", ModelRefused),
    ],
)
def test_a_conversation_that_is_too_long_has_an_error_of_its_own(
    text: str, code: str, error: type[ModelError]
) -> None:
    found = refused(text, code)
    assert type(found) is error
    assert str(found) == text


def test_values_of_wrong_types_count_as_absent() -> None:
    assert (text_of(3), text_of("a"), text_of(None)) == ("", "a", "")
    assert count_of({"a": {"b": 3}}, "a", "b") == 3
    for odd in (None, {}, {"a": 1}, {"a": {"b": -1}}, {"a": {"b": True}}, {"a": {"b": 1.5}}):
        assert count_of(odd, "a", "b") == 0


def test_a_key_is_not_repeated() -> None:
    assert without_key("bad sk-12345678!", "sk-12345678") == "bad [key]!"
    assert without_key("no key", "no") == "no key", "a placeholder"
