"""What a script wants to send, which may be anything."""

from typing import Any

import pytest

from penstock.core.state import parse_path
from penstock.resources.egress import Redirect
from penstock.tools.scripts.fetch_arguments import multipart, read_fetch

PLAIN = {"url": "https://a.test/", "method": "GET"}
WRONG: list[dict[str, Any]] = [
    {"url": None},
    {"url": 1},
    {"method": ""},
    {"method": "x" * 41},
    {"headers": None},
    {"headers": {}},
    {"headers": ["ab"]},
    {"headers": [["a"]]},
    {"headers": [["a", 1]]},
    {"headers": [["", "x"]]},
    {"redirect": "home"},
    {"redirect": []},
    {"redirect": None},
    {"timeout_ms": "1"},
    {"timeout_ms": -1},
    {"timeout_ms": float("inf")},
    {"timeout_ms": 3_600_001},
    {"headers": [["a", "b", "c"]]},
    {"body": {"kind": "text", "text": "x" * (16 * 1024 * 1024 + 1)}},
    {"body": {"kind": "form", "parts": [{"name": "a", "text": "x" * (16 * 1024 * 1024 + 1)}]}},
    {"body": {"kind": "form", "parts": [{"name": "a", "text": "x", "type": 1}]}},
    {"body": "text"},
    {"body": []},
    {"body": {}},
    {"body": {"kind": "stream"}},
    {"body": {"kind": []}},
    {"body": {"kind": "text"}},
    {"body": {"kind": "text", "text": 1}},
    {"body": {"kind": "text", "attachment": 1}},
    {"body": {"kind": "bytes"}},
    {"body": {"kind": "bytes", "attachment": 1}},
    {"body": {"kind": "bytes", "attachment": -1}},
    {"body": {"kind": "bytes", "attachment": True}},
    {"body": {"kind": "bytes", "attachment": "0"}},
    {"body": {"kind": "bytes", "attachment": 0}, "attachments": ["no bytes"]},
    {"body": {"kind": "bytes", "attachment": 0}, "attachments": None},
    {"body": {"kind": "form", "parts": {}}},
    {"body": {"kind": "form", "parts": [1]}},
    {"body": {"kind": "form", "parts": [{}]}},
    {"body": {"kind": "form", "parts": [{"name": "a"}]}},
    {"body": {"kind": "form", "parts": [{"name": 1, "text": "x"}]}},
    {"body": {"kind": "form", "parts": [{"name": "a", "text": 1}]}},
    {"body": {"kind": "form", "parts": [{"name": "a", "path": "/etc/passwd"}]}},
    {"body": {"kind": "form", "parts": [{"name": "a", "path": "task://../x"}]}},
    {"body": {"kind": "form", "parts": [{"name": "a", "text": "x", "filename": 1}]}},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_mistakes(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        read_fetch({"attachments": [b"x"]} | PLAIN | wrong)


MOST_TEXT = 16 * 1024 * 1024


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"method": "x" * 40}, ("method", "x" * 40)),
        ({"headers": [["a", ""], ("b", "c")]}, ("headers", (("a", ""), ("b", "c")))),
        ({"timeout_ms": 0}, ("seconds", 0)),
        ({"timeout_ms": 3_600_000}, ("seconds", 3_600)),
        ({"body": None}, ("body", None)),
        ({"body": {"kind": "text", "text": ""}}, ("body", "")),
        ({"body": {"kind": "text", "text": "x" * MOST_TEXT}}, ("body", "x" * MOST_TEXT)),
        ({"body": {"kind": "bytes", "attachment": 1}, "attachments": [b"", b"z"]}, ("body", b"z")),
        ({"body": {"kind": "form", "parts": []}}, ("body", ())),
        ({"record": None}, ("is_recorded", True)),
    ],
    ids=lambda each: None if isinstance(each, dict) else each[0],
)
def test_what_is_just_within_the_limits(given: dict[str, Any], read: tuple[str, Any]) -> None:
    name, value = read
    found = getattr(read_fetch(PLAIN | given), name)
    assert found == value


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ({"text": ""}, ""),
        ({"text": "x" * MOST_TEXT}, "x" * MOST_TEXT),
        ({"attachment": 0}, b"x"),
        ({"path": "task://a/b.txt"}, parse_path("task://a/b.txt")),
        ({"text": "t", "path": "task://a", "attachment": 0}, "t"),
    ],
    ids=["empty", "the longest text", "bytes", "a file", "a text counts first"],
)
def test_a_part_of_a_form_is_a_text_bytes_or_a_file(part: dict[str, Any], content: Any) -> None:
    parts = [{"name": "", **part}]
    body = read_fetch(
        PLAIN | {"body": {"kind": "form", "parts": parts}, "attachments": [b"x"]}
    ).body
    assert isinstance(body, tuple)
    assert body[0].content == content
    assert (body[0].name, body[0].filename, body[0].mime_type) == ("", None, None)


def test_what_is_left_out() -> None:
    found = read_fetch(PLAIN)
    assert (found.headers, found.body, found.seconds) == ((), None, None)
    assert (found.redirect, found.is_recorded) == (Redirect.FOLLOW, True)


def test_what_is_given() -> None:
    body = {"kind": "bytes", "attachment": 0}
    more = {"headers": [["a", ""]], "body": body, "timeout_ms": 1500, "record": False}
    found = read_fetch(PLAIN | more | {"attachments": [b"\x00"], "redirect": "manual"})
    assert (found.headers, found.body, found.seconds) == ((("a", ""),), b"\x00", 1.5)
    assert (found.redirect, found.is_recorded) == (Redirect.MANUAL, False)


def test_a_form_is_sent_as_browsers_do_and_no_name_gets_out_of_its_line() -> None:
    parts = [
        {"name": 'a"\r\nX: 1', "text": "one"},
        {"name": "f", "filename": "b\n.txt", "type": "text/plain\r\nX: 2", "attachment": 0},
    ]
    given = PLAIN | {"body": {"kind": "form", "parts": parts}, "attachments": [b"two"]}
    body = read_fetch(given).body
    assert isinstance(body, tuple)
    pieces = multipart(body, ["one", b"two"], "XYZ")
    sent = b"".join(each.encode() if isinstance(each, str) else each for each in pieces)
    assert sent == (
        b'--XYZ\r\nContent-Disposition: form-data; name="a%22%0D%0AX: 1"\r\n\r\none\r\n'
        b'--XYZ\r\nContent-Disposition: form-data; name="f"; filename="b%0A.txt"\r\n'
        b"Content-Type: text/plainX: 2\r\n\r\ntwo\r\n--XYZ--\r\n"
    )


def test_a_long_text_comes_beside_the_arguments() -> None:
    """`fetch_request_bytes` is 16 MiB, the arguments of a host call have at most 8."""
    found = read_fetch(
        PLAIN | {"body": {"kind": "text", "attachment": 0}, "attachments": ["hé".encode()]}
    )
    assert found.body == "hé"
