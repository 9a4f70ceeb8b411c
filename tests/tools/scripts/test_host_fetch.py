"""Requests of scripts: their arguments, what is recorded, and what is sent again."""

import asyncio
import re
from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.limits import Limits
from penstock.core.scopes import parse_path
from penstock.resources.egress import Egress, Redirect
from penstock.resources.hosts import read_patterns
from penstock.testing.clock import settle
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.host_fetch import multipart, read_fetch
from tests.kit.hosts import Asking, asking
from tests.kit.local_egress import Way, way
from tests.kit.origin import answer, origin, says

SAYS = says(answer(b"found \xff s3cr3t-value", "200 OK", "x-a: s3cr3t-value"))


async def asking_at(result: Way, **more: Any) -> Asking:
    """Return a host whose script may reach the server."""
    bindings = Bindings(egress=read_patterns([f"http://api.test:{result.port}"]))
    return await asking(bindings=bindings, egress=result.egress, **more)


def request(port: int, **more: Any) -> dict[str, Any]:
    return {"url": f"http://api.test:{port}/", "method": "GET", "redirect": "follow"} | more


async def test_a_response_body_is_the_same_in_every_entry() -> None:
    async with origin(SAYS) as server:
        host = await asking_at(way(server.port, Limits()))
        for _ in range(2):
            result = await host.value("fetch", **request(server.port))
            assert (result["status"], result["body"]) == (200, b"found \xff s3cr3t-value")
            host.begin()
    assert len(server.heard) == 1


async def test_a_response_is_recorded_without_secrets() -> None:
    async with origin(SAYS) as server:
        host = await asking_at(way(server.port, Limits()))
        host.invocation.caller.secrets.add("token", "s3cr3t-value")
        result = await host.value("fetch", **request(server.port))
    assert result["body"] == b"found \xff [secret:token]"
    assert result["headers"]["x-a"] == "[secret:token]"
    assert "s3cr3t-value" not in repr(await host.bench.events())


@pytest.mark.parametrize(
    ("effect", "idempotent", "again"),
    [
        (Effect.WRITE, False, "INTERRUPTED"),
        (Effect.WRITE, True, None),
        (Effect.READ, False, None),
        (Effect.NONE, False, None),
    ],
)
async def test_an_interrupted_write_is_not_sent_again(
    effect: Effect, idempotent: bool, again: str | None
) -> None:
    async with origin(SAYS) as server:
        host = await asking_at(way(server.port, Limits()), effect=effect, idempotent=idempotent)
        asked = request(server.port, method="POST")
        await _cut(host, asked)
        host.begin()
        settled = await host.ask("fetch", asked)
    code = settled.refusal.detail.code if settled.refusal else None
    assert code == again


async def _cut(host: Asking, asked: dict[str, Any]) -> None:
    """Send a request until it is noted on disk, and no further."""
    sending = asyncio.ensure_future(host.ask("fetch", asked))
    while not host.bench.ledger.task.entered:
        await settle(rounds=1)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_a_form_can_send_a_file_of_the_workspace() -> None:
    async with origin(SAYS) as server:
        host = await asking_at(way(server.port, Limits()))
        workspace = host.invocation.workspace
        await workspace.make(await workspace.write(parse_path("task://a.txt"), b"of the file"))
        part = {"name": "f", "filename": "a.txt", "type": "text/plain", "path": "task://a.txt"}
        body = {"kind": "form", "parts": [part]}
        headers = [["Content-Type", "text/plain"], ["x-more", "kept"]]
        more = {"method": "POST", "body": body, "headers": headers}
        await host.value("fetch", **request(server.port) | more)
    assert "of the file" in server.heard[0]
    boundary = re.search(r"multipart/form-data; boundary=([0-9a-f]{32})\r\n", server.heard[0])
    assert boundary
    assert server.heard[0].count(boundary[1]) == 3
    assert "text/plain" not in server.heard[0].partition("\r\n\r\n")[0]
    assert "x-more: kept" in server.heard[0]
    assert 'filename="a.txt"' in server.heard[0]


class Busy:
    """A DNS without entries; counts the requests that it has at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __call__(self, host: str, port: int) -> list[str]:
        self.now += 1
        self.most = max(self.most, self.now)
        await settle(rounds=3)
        self.now -= 1
        return []


async def test_further_requests_wait_their_turn() -> None:
    """A sandbox that breaks any limit takes nothing else with it: connections are of all."""
    dns = Busy()
    bindings = Bindings(egress=read_patterns(["api.test"]))
    host = await asking(bindings=bindings, egress=Egress(Limits(), resolve=dns))
    asked = [
        request(1, url=f"https://api.test/{number}", record=number % 2 == 0) for number in range(70)
    ]
    result = await asyncio.gather(*(host.ask("fetch", each) for each in asked))
    codes = {each.refusal.detail.code for each in result if each.refusal}
    assert (dns.most, codes) == (64, {"UPSTREAM_UNAVAILABLE"})


@pytest.mark.parametrize(
    ("url", "code"),
    [("http://b.test/", "EGRESS_DENIED"), ("nonsense", "TypeError"), ("file:///a", "TypeError")],
)
async def test_refusals_are_recorded_too(url: str, code: str) -> None:
    host = await asking_at(way(1, Limits()))
    for _ in range(2):
        assert await host.refusal("fetch", request(1) | {"url": url}) == code
        host.begin()


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
def test_malformed_fetch_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        read_fetch({"attachments": [b"x"]} | PLAIN | wrong)


MAX_TEXT = 16 * 1024 * 1024


@pytest.mark.parametrize(
    ("passed", "read"),
    [
        ({"method": "x" * 40}, ("method", "x" * 40)),
        ({"headers": [["a", ""], ("b", "c")]}, ("headers", (("a", ""), ("b", "c")))),
        ({"timeout_ms": 0}, ("seconds", 0)),
        ({"timeout_ms": 3_600_000}, ("seconds", 3_600)),
        ({"body": None}, ("body", None)),
        ({"body": {"kind": "text", "text": ""}}, ("body", "")),
        ({"body": {"kind": "text", "text": "x" * MAX_TEXT}}, ("body", "x" * MAX_TEXT)),
        ({"body": {"kind": "bytes", "attachment": 1}, "attachments": [b"", b"z"]}, ("body", b"z")),
        ({"body": {"kind": "form", "parts": []}}, ("body", ())),
        ({"record": None}, ("is_recorded", True)),
    ],
    ids=lambda each: None if isinstance(each, dict) else each[0],
)
def test_fetch_arguments_at_their_limits_are_accepted(
    passed: dict[str, Any], read: tuple[str, Any]
) -> None:
    name, value = read
    result = getattr(read_fetch(PLAIN | passed), name)
    assert result == value


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ({"text": ""}, ""),
        ({"text": "x" * MAX_TEXT}, "x" * MAX_TEXT),
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


def test_absent_fetch_arguments_get_defaults() -> None:
    result = read_fetch(PLAIN)
    assert (result.headers, result.body, result.seconds) == ((), None, None)
    assert (result.redirect, result.is_recorded) == (Redirect.FOLLOW, True)


def test_fetch_arguments_are_read_completely() -> None:
    body = {"kind": "bytes", "attachment": 0}
    more = {"headers": [["a", ""]], "body": body, "timeout_ms": 1500, "record": False}
    result = read_fetch(PLAIN | more | {"attachments": [b"\x00"], "redirect": "manual"})
    assert (result.headers, result.body, result.seconds) == ((("a", ""),), b"\x00", 1.5)
    assert (result.redirect, result.is_recorded) == (Redirect.MANUAL, False)


def test_a_form_is_encoded_as_in_browsers_with_escaped_names() -> None:
    parts = [
        {"name": 'a"\r\nX: 1', "text": "one"},
        {"name": "f", "filename": "b\n.txt", "type": "text/plain\r\nX: 2", "attachment": 0},
    ]
    passed = PLAIN | {"body": {"kind": "form", "parts": parts}, "attachments": [b"two"]}
    body = read_fetch(passed).body
    assert isinstance(body, tuple)
    pieces = multipart(body, ["one", b"two"], "XYZ")
    sent = b"".join(each.encode() if isinstance(each, str) else each for each in pieces)
    assert sent == (
        b'--XYZ\r\nContent-Disposition: form-data; name="a%22%0D%0AX: 1"\r\n\r\none\r\n'
        b'--XYZ\r\nContent-Disposition: form-data; name="f"; filename="b%0A.txt"\r\n'
        b"Content-Type: text/plainX: 2\r\n\r\ntwo\r\n--XYZ--\r\n"
    )


def test_a_long_text_is_read_from_its_attachment() -> None:
    """`fetch_request_bytes` is 16 MiB, the arguments of a host call have at most 8."""
    result = read_fetch(
        PLAIN | {"body": {"kind": "text", "attachment": 0}, "attachments": ["hé".encode()]}
    )
    assert result.body == "hé"
