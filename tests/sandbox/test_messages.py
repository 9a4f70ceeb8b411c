"""Messages and frames: parsed in pieces and as a whole, and refused when malformed."""

from types import MappingProxyType
from typing import Any

import pytest

from penstock.core.call_errors import ScriptError
from penstock.sandbox.messages import Delivery, FrameReader, frame_of, read_json, read_message


def test_a_host_call_has_a_name_and_arguments() -> None:
    message = read_message('ask\n7\nstate.get\n{"key":"a\\nb"}', [], 200)
    assert (message.kind, message.number, message.name) == ("ask", 7, "state.get")
    assert message.value == {"key": "a\nb"}


def test_bytes_are_attachments_of_the_arguments() -> None:
    message = read_message('ask\n1\nfetch\n{"body":{"attachment":0}}', [b"\xff"], 200)
    assert message.value == {"body": {"attachment": 0}, "attachments": [b"\xff"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ask",
        "ask\n1",
        "ask\n-1\na\n{}",
        "ask\n1.5\na\n{}",
        "ask\n\u0661\na\n{}",
        f"ask\n{'9' * 5000}\na\n{{}}",
        "ask\n1\na",
        "ask\n1\na\n[]",
        "ask\n1\na\n5",
        'ask\n1\na\n"j"',
        "ask\n1\na\n{",
        "drop\nx\n",
        "odd\n1\n",
        "fail\n0\n{",
        "done\n0",
    ],
)
def test_a_malformed_message_ends_the_script(text: str) -> None:
    with pytest.raises(ScriptError):
        read_message(text, [], 200)


@pytest.mark.parametrize(("levels", "is_refused"), [(200, False), (201, True), (100_000, True)])
def test_arguments_nested_too_deeply_refuse_the_call_only(levels: int, is_refused: bool) -> None:
    """`json_depth` counts the levels of the arguments, not the object around them."""
    spelled = '{"input":' + "[" * levels + "]" * levels + "}"
    message = read_message(f"ask\n1\ncallTool\n{spelled}", [], 200)
    assert message.problem.startswith("the arguments of callTool may") is is_refused
    assert (message.value is None) is is_refused


def test_bytes_cannot_be_forged() -> None:
    assert read_message('ask\n1\nfetch\n{"attachments":[1]}', [], 200).value == {}


def test_a_console_line_keeps_its_line_breaks() -> None:
    message = read_message("print\n0\nerror\none\ntwo", [], 200)
    assert (message.name, message.value) == ("error", "one\ntwo")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NaN", "NaN is not a number of JSON"),
        ("[-Infinity]", "-Infinity is not a number of JSON"),
        ("1e999", "1e999 is too large"),
        ("9" * 5000, "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
        ("[" * 201 + "]" * 201, "may be nested 200 deep"),
        ('{"a":' * 201 + "1" + "}" * 201, "may be nested 200 deep"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_values_that_are_not_plain_json_are_refused(text: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        read_json(text, 200, "the output")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[" * 200 + "]" * 200, None),
        ('"\\ud800"', "\ufffd"),
        ('{"\\udc00x":["\\ud83d\\ude00"]}', {"\ufffdx": ["\U0001f600"]}),
        ('"\\\\ud800"', "\\ud800"),
        ("[" + "[]," * 500 + "1.5e3]", [*[[]] * 500, 1500.0]),
    ],
)
def test_json_is_parsed_with_surrogate_pairs_joined(text: str, value: Any) -> None:
    result = read_json(text, 200, "the output")
    assert value is None or result == value


def test_bytes_of_a_value_become_attachments() -> None:
    value = {"status": 200, "body": b"ab", "headers": MappingProxyType({"a": "b"})}
    text, attachments = Delivery(kind="settle", number=3, value=value, at_ms=0).to_wire()
    assert attachments == [b"ab"]
    assert text.startswith("settle\n3\n")
    assert read_json(text.split("\n", 2)[2], 200, "it")["body"] == {"attachment": 0}


def test_a_result_that_is_not_json_raises_type_error() -> None:
    delivery = Delivery(kind="settle", number=1, value=object(), at_ms=0)
    with pytest.raises(TypeError, match="settled with a object, which is not JSON"):
        delivery.to_wire()


CONTENT = frame_of("post", [b"text", b"", b"\0\xff"]) + frame_of("idle")


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_frames_are_read_in_pieces_of_any_size(size: int) -> None:
    frames = FrameReader(1000)
    pieces = [CONTENT[at : at + size] for at in range(0, len(CONTENT), size)]
    result = [frame for piece in pieces for frame in frames.feed(piece)]
    assert result == [("post", [b"text", b"", b"\0\xff"]), ("idle", [])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0\0\0\0", "1 to 65536 parts, found 0"),
        (b"\xff\xff\xff\xff", "parts, found 4294967295"),
        (b"\1\0\0\0\xff\xff\xff\x7f", "at most 1000 bytes"),
    ],
)
def test_an_invalid_frame_is_refused_before_it_is_buffered(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(FrameReader(1000).feed(content))


def test_a_frame_one_byte_over_its_limit_is_refused() -> None:
    frame = frame_of("post", [b"x" * 100])
    assert list(FrameReader(len(frame)).feed(frame)) == [("post", [b"x" * 100])]
    with pytest.raises(ValueError, match=f"at most {len(frame) - 1} bytes, found {len(frame)}"):
        list(FrameReader(len(frame) - 1).feed(frame))
