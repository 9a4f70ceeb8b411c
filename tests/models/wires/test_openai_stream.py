"""The shapes that OpenAI-compatible servers stream, good and odd."""

import json
from typing import Any

import pytest

from penstock.core.errors import ContextTooLarge, ModelRefused, ModelUnavailable
from penstock.core.messages import Usage
from penstock.models.model import CallDelta, ModelEvent, ReasoningDelta, TextDelta
from penstock.models.wires.openai_stream import ChatStream, stream_error
from penstock.models.wires.sse import error_text
from tests.kit.model_server import called, delta, events


def read(*chunks: Any) -> tuple[list[ModelEvent], ChatStream]:
    stream = ChatStream(10_000)
    found = stream.feed(b"".join(events(*chunks)))
    return found + stream.end(), stream


def said(name: str, **more: Any) -> dict[str, Any]:
    """Return one entry of a delta that has several."""
    index = {"index": more.pop("index")} if "index" in more else {}
    return index | {"function": {"name": name} | more}


def calls(*deltas: dict[str, Any]) -> dict[int, tuple[str, str]]:
    """Return name and arguments of each call, put together as a caller would."""
    found, _ = read(*deltas, delta("tool_calls"))
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for event in found:
        assert isinstance(event, CallDelta)
        assert not (event.name and event.index in names), "the name comes once"
        names[event.index] = names.get(event.index, "") + event.name
        arguments[event.index] = arguments.get(event.index, "") + event.arguments
    return {index: (name, arguments[index]) for index, name in names.items()}


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_bytes_may_be_cut_anywhere(size: int) -> None:
    wire = b"".join(events(delta(content="Grüße 👋"), delta("stop"))).replace(b"\n", b"\r\n")
    wire = b": comment\r\nevent: x\r\n" + wire
    stream = ChatStream(10_000)
    found = [
        event for at in range(0, len(wire), size) for event in stream.feed(wire[at : at + size])
    ]
    assert found == [TextDelta("Grüße 👋")]
    assert stream.done
    assert stream.end() == []


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (delta(reasoning_content="hm"), [ReasoningDelta("hm")]),
        (delta(reasoning="hm"), [ReasoningDelta("hm")]),
        (delta(reasoning="hm", reasoning_content="hm"), [ReasoningDelta("hm")]),
        (delta(reasoning={"effort": 1}, content="a"), [TextDelta("a")]),
        (delta(refusal="no"), [TextDelta("no")]),
        (delta(content=[{"type": "text", "text": "a"}, {"text": "b"}, 3]), [TextDelta("ab")]),
        (delta(content="", tool_calls=None), []),
        (delta(content=None), []),
        ({"choices": [{"delta": None}]}, []),
        ({"choices": []}, []),
        ({"choices": None}, []),
        ({"choices": [None]}, []),
        ({"choices": "odd"}, []),
        ({}, []),
        (None, []),
        ([], []),
        ("", []),
        (3, []),
        (delta(tool_calls=[None, "x"]), []),
        (delta(tool_calls={"function": {"name": "f"}}), [CallDelta(0, "f")]),
        (delta(tool_calls=[{"index": 0, "function": None}]), []),
        (delta(function_call={"name": "f", "arguments": "{}"}), [CallDelta(0, "f", "{}")]),
    ],
)
def test_a_chunk_of_any_shape(chunk: Any, expected: list[ModelEvent]) -> None:
    assert read(chunk, delta("stop"))[0] == expected


A: dict[str, Any] = {"index": 0, "id": "a", "type": "function"}
B: dict[str, Any] = {"index": 1, "id": "b", "type": "function"}


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        (  # as OpenAI sends them
            [
                called(**A, name="add", arguments=""),
                called(index=0, arguments='{"a"'),
                called(index=0, arguments=":1}"),
                called(**B, name="mul", arguments="{}"),
            ],
            {0: ("add", '{"a":1}'), 1: ("mul", "{}")},
        ),
        (  # in turns
            [
                called(**A, name="add"),
                called(**B, name="mul"),
                called(index=0, arguments="{"),
                called(index=1, arguments="[]"),
                called(index=0, arguments="}"),
            ],
            {0: ("add", "{}"), 1: ("mul", "[]")},
        ),
        (  # whole calls, every one with index 0
            [
                called(**A, name="add", arguments="{}"),
                called(index=0, id="b", name="add", arguments='{"x":1}'),
            ],
            {0: ("add", "{}"), 1: ("add", '{"x":1}')},
        ),
        (  # whole calls without arguments, every one with index 0
            [called(**A, name="add"), called(index=0, id="b", name="now", arguments="{}")],
            {0: ("add", ""), 1: ("now", "{}")},
        ),
        (  # no index
            [
                called(id="a", name="add", arguments="{"),
                called(arguments="}"),
                called(id="b", name="mul", arguments=""),
                called(id="b", arguments="{}"),
                called(id="a", arguments=" "),
            ],
            {0: ("add", "{} "), 1: ("mul", "{}")},
        ),
        (  # no index, no id
            [called(name="add", arguments="{}"), called(name="add", arguments="{}")],
            {0: ("add", "{}"), 1: ("add", "{}")},
        ),
        (  # no index, no id, two in one delta
            [delta(tool_calls=[said("dice"), said("now", arguments='{"in":"Oslo"}')])],
            {0: ("dice", ""), 1: ("now", '{"in":"Oslo"}')},
        ),
        (  # the same twice in one delta, every one with index 0
            [delta(tool_calls=[said("dice", index=0), said("dice", index=0)])],
            {0: ("dice", ""), 1: ("dice", "")},
        ),
        (  # another tool, after a call without arguments
            [called(name="dice", arguments=""), called(name="now", arguments="{}")],
            {0: ("dice", ""), 1: ("now", "{}")},
        ),
        (  # another tool, after a call that was cut
            [called(name="dice", arguments='{"count": 2'), called(name="now", arguments="{}")],
            {0: ("dice", '{"count": 2'), 1: ("now", "{}")},
        ),
        (  # the name and a new id in every delta
            [
                called(index=0, id="x", name="add", arguments='{"a"'),
                called(index=0, id="y", name="add", arguments=":1}"),
            ],
            {0: ("add", '{"a":1}')},
        ),
        (  # indices with gaps, and the first one late
            [called(index=3, name="add", arguments="1"), called(index=1, name="mul")],
            {0: ("add", "1"), 1: ("mul", "")},
        ),
        ([called(index="0", name="add", arguments={"a": 1})], {0: ("add", '{"a": 1}')}),
        ([called(index=0, arguments="{oops")], {0: ("", "{oops")}),
    ],
)
def test_calls_are_distinguished(
    deltas: list[dict[str, Any]], expected: dict[int, tuple[str, str]]
) -> None:
    """Deltas without index/id/type, wrong JSON in arguments: the text arrives as it came."""
    assert calls(*deltas) == expected


@pytest.mark.parametrize(
    ("expected", "with_call", "reason"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        ("tool_calls", True, "tool_calls"),
        ("function_call", True, "tool_calls"),
        ("length", True, "length"),
        ("max_tokens", False, "length"),
        ("content_filter", False, "content_filter"),
        ("eos", False, "stop"),
        (None, True, "tool_calls"),
        (None, False, "stop"),
    ],
)
def test_finish_reasons(expected: str | None, with_call: bool, reason: str) -> None:
    first = called(index=0, name="add") if with_call else delta(content="a")
    assert read(first, delta(expected))[1].finish_reason == reason


def test_a_last_call_may_be_truncated() -> None:
    cut = called(index=0, name="add", arguments='{"a": ')
    found, stream = read(cut, delta("length"))
    assert found == [CallDelta(0, "add", '{"a": ')]
    assert stream.finish_reason == "length"


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, Usage(input_tokens=3, output_tokens=4)),
        (
            {
                "prompt_tokens": 30,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 5},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(
                input_tokens=30,
                output_tokens=4,
                cached_tokens=20,
                cache_write_tokens=5,
                reasoning_tokens=3,
            ),
        ),
        (
            {"prompt_tokens": 30, "completion_tokens": 4, "prompt_cache_hit_tokens": 20},
            Usage(input_tokens=30, output_tokens=4, cached_tokens=20),
        ),
        (
            {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"a": None}},
            Usage(input_tokens=3, output_tokens=4),
        ),
        ({"prompt_tokens": None}, None),
        ({"prompt_tokens": -3, "completion_tokens": 4}, None),
        ({"prompt_tokens": True, "completion_tokens": 4}, None),
        ({"prompt_tokens": None, "completion_tokens": 4}, None),
        (None, None),
        ("much", None),
    ],
)
def test_usage(usage: Any, tokens: Usage | None) -> None:
    assert read(delta("stop"), {"choices": [], "usage": usage})[1].usage == tokens


def test_a_refusal_is_text_and_ends_as_a_filter_does() -> None:
    found, stream = read(delta(refusal="I "), delta(refusal="cannot."), delta("stop"))
    assert found == [TextDelta("I "), TextDelta("cannot.")]
    assert (stream.refusal, stream.finish_reason) == ("I cannot.", "content_filter")
    assert read(delta("stop", refusal=None, content="a"))[1].refusal is None


@pytest.mark.parametrize(
    ("deltas", "field"),
    [
        ([{"reasoning_content": "hm"}], "reasoning_content"),
        ([{"reasoning": "hm"}], "reasoning"),
        ([{"reasoning": "hm", "reasoning_content": "hm"}], "reasoning_content"),
        ([{"reasoning_content": None, "reasoning": ["hm"], "content": "a"}], ""),
    ],
)
def test_the_field_of_the_reasoning_is_kept(deltas: list[dict[str, Any]], field: str) -> None:
    found, stream = read(*(delta(**each) for each in deltas), delta("stop"))
    assert stream.reasoning_field == field
    assert found[:1] == ([ReasoningDelta("hm")] if field else [TextDelta("a")])


def test_characters_are_counted_for_an_estimate() -> None:
    call = called(index=0, name="add", arguments="{}")
    assert read(delta(content="abc", reasoning="de"), call)[1].chars == 10


def test_the_end_may_come_without_a_last_line_break() -> None:
    stream = ChatStream(1000)
    assert (
        stream.feed(b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}') == []
    )
    assert stream.end() == [TextDelta("a")]


def test_a_reply_without_an_end_is_cut_off() -> None:
    stream = ChatStream(1000)
    stream.feed(b"".join(events(delta(content="a"), done=False)))
    with pytest.raises(ModelUnavailable, match="cut off before its end"):
        stream.end()


def test_deep_json_is_not_a_reply() -> None:
    with pytest.raises(ModelUnavailable, match="not JSON"):
        read("[" * 9000)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429}, ModelUnavailable),
        ({"code": 500, "type": "server_error"}, ModelUnavailable),
        ({"status": 400}, ModelRefused),
        ({"type": "invalid_request_error"}, ModelRefused),
        ({"code": "context_length_exceeded"}, ContextTooLarge),
        ({"type": "insufficient_quota"}, ModelRefused),
        ({"type": "requests", "code": "insufficient_quota"}, ModelRefused),
        ({"code": 429, "message": "You exceeded your current quota."}, ModelRefused),
        ({"type": "overloaded_error"}, ModelUnavailable),
        ("overloaded", ModelUnavailable),
        (["odd"], ModelUnavailable),
    ],
)
def test_errors_in_the_stream(error: Any, kind: type[Exception]) -> None:
    assert type(stream_error(error)) is kind
    with pytest.raises(kind):
        read({"error": error})
    with pytest.raises(kind):
        ChatStream(1000).feed(b"error: " + json.dumps(error).encode() + b"\n")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"error": {"message": "a"}}, "a"),
        ({"error": "a"}, "a"),
        ({"detail": "a"}, "a"),
        ("a", "a"),
        ({"x": 1}, '{"x": 1}'),
    ],
)
def test_the_words_of_an_error(error: Any, text: str) -> None:
    assert error_text(error) == text
