"""The one way out, to real servers on this machine."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.core.call_errors import CallError, EgressDenied, UpstreamUnavailable
from penstock.resources.egress import Asker, Egress, Redirect, Request
from penstock.resources.handles import Handles
from penstock.resources.hosts import read_patterns
from tests.kit.origin import Say, answer, origin, says, serving, trusting
from tests.kit.ways import HERE, LIMITS, Dns, asked, refusal, way


async def test_an_answer_is_given_as_it_is_whatever_its_status() -> None:
    """Egress: "Every HTTP status resolves"."""
    said = answer(b"no", "404 Not Found", "X-A: 1", "x-a: 2", "Content-Type: text/plain")
    async with origin(says(said)) as server:
        found = await way(server.port).get("/a?b=c#d")
    assert (found.status, found.body) == (404, b"no")
    assert found.headers["x-a"] == "1, 2"
    assert found.headers["content-type"] == "text/plain"
    assert server.heard[0].startswith("GET /a?b=c HTTP/1.1\r\n")
    assert f"host: api.test:{server.port}\r\n" in server.heard[0]


async def test_method_headers_and_body_arrive() -> None:
    async with origin(says(answer())) as server:
        headers = (("X-Own", "é"), ("accept", "text/csv"))
        await way(server.port).get(method="post", headers=headers, body=b"\x00abc")
    assert server.heard[0].startswith("POST / HTTP/1.1\r\n")
    for part in ("x-own: é\r\n", "accept: text/csv\r\n", "content-length: 4\r\n", "\r\n\x00abc"):
        assert part in server.heard[0]


# ---- who may be asked ----------------------------------------------------------------------------


async def test_a_host_must_match_before_dns_is_asked() -> None:
    """Egress: "**and** `egress.allow`, before DNS is asked; else `EGRESS_DENIED` naming host"."""
    out = way(80, allow=["https://*.good.test"])
    for patterns, said in [
        (["other.test"], '"t" may not reach https://api.test: no pattern of its egress allows it'),
        ([], '"t" may not reach https://api.test: no pattern of its egress allows it'),
        (["api.test"], "egress.allow of the project does not"),
    ]:
        asker = Asker(tool_id="t", egress=read_patterns(patterns))
        with pytest.raises(EgressDenied) as denied:
            await out.egress.fetch(Request(url="https://api.test/"), asker)
        assert said in str(denied.value)
    assert out.dns.asked == []


PRIVATE = [["10.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:169.254.169.254"], ["64:ff9b::7f00:1"]]


@pytest.mark.parametrize("addresses", PRIVATE)
async def test_every_address_of_a_host_is_checked(addresses: list[str]) -> None:
    egress = Egress(LIMITS, resolve=Dns({"api.test": addresses}))
    for declared in (read_patterns(["api.test"]), None):
        with pytest.raises(EgressDenied, match="it has an address that is not public"):
            await egress.fetch(
                Request(url="https://api.test/"), Asker(tool_id="t", egress=declared)
            )


SPELLED = ["http://127.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/"]


@pytest.mark.parametrize("url", SPELLED)
async def test_an_address_in_the_url_is_checked_too(url: str) -> None:
    asker = Asker(tool_id="t", egress=read_patterns(["http://*"]))
    with pytest.raises(EgressDenied, match="not public"):
        await Egress(LIMITS, allow=["http://*"]).fetch(Request(url=url), asker)


async def test_a_private_address_is_reached_by_a_named_host_alone() -> None:
    async with origin(says(answer())) as server:
        out = way(server.port)
        assert (await out.get()).status == 200
        with pytest.raises(EgressDenied, match="not public"):
            await out.get("/", f"http://*:{server.port}")


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """Egress: "the connection goes to the checked address": DNS is asked once a hop."""
    async with origin(says(answer())) as server:
        out = way(server.port)
        await out.get()
        assert out.dns.asked == ["api.test"]


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with origin(says(answer())) as server:
        out = way(server.port)
        out.dns.known = {"api.test": ["127.0.0.2", HERE]}
        assert (await out.get()).body == b"ok"


# ---- redirects -----------------------------------------------------------------------------------


def moves(status: int, location: str) -> Say:
    """Send whoever asks for `/` somewhere else."""

    async def say(heard: str, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("sockname")[1]
        is_first = heard.split(" ")[1] == "/"
        place = f"location: {location.replace('PORT', str(port))}"
        writer.write(answer(b"", f"{status} Moved", place) if is_first else answer(b"there"))

    return say


async def test_redirects_are_followed_and_each_hop_is_checked() -> None:
    async with origin(moves(302, "http://b.test:PORT/next")) as server:
        found = await way(server.port).get()
        assert (found.body, found.url) == (b"there", f"http://b.test:{server.port}/next")
        with pytest.raises(EgressDenied, match=r"may not reach http://b\.test"):
            await way(server.port).get("/", f"http://api.test:{server.port}")


BAD_HOPS = [
    ("http://c.test:PORT/", EgressDenied, "no pattern of its egress"),
    ("http://127.0.0.1:PORT/", EgressDenied, "no pattern of its egress"),
    ("file:///etc/passwd", UpstreamUnavailable, "redirects to 'file:///etc/passwd'"),
    ("http://u:p@api.test:PORT/x", UpstreamUnavailable, "redirects to"),
    ("http://a:x/", UpstreamUnavailable, "redirects to"),
    ("/", UpstreamUnavailable, "is behind more than 5 redirects"),
]


@pytest.mark.parametrize(("location", "kind", "message"), BAD_HOPS)
async def test_a_redirect_leads_nowhere_else(
    location: str, kind: type[CallError], message: str
) -> None:
    refused = await refusal(moves(307, location))
    assert type(refused) is kind
    assert message in str(refused)


METHODS = [
    (301, "POST", "GET", False),
    (302, "POST", "GET", False),
    (303, "PUT", "GET", False),
    (303, "HEAD", "HEAD", False),
    (307, "POST", "POST", True),
    (308, "PUT", "PUT", True),
    (301, "PUT", "PUT", True),
]


@pytest.mark.parametrize(("status", "method", "then", "has_body"), METHODS)
async def test_the_method_after_a_redirect(
    status: int, method: str, then: str, has_body: bool
) -> None:
    body = None if method == "HEAD" else b"abc"
    async with origin(moves(status, "/next")) as server:
        await way(server.port).get(method=method, body=body, headers=(("content-type", "x/y"),))
    assert server.heard[1].startswith(f"{then} /next ")
    assert ("abc" in server.heard[1]) == has_body


async def test_credentials_do_not_follow_to_another_origin() -> None:
    headers = (("Authorization", "Bearer x"), ("X-Own", "y"))
    async with origin(moves(307, "http://b.test:PORT/next")) as server:
        await way(server.port).get(headers=headers)
    assert "Bearer x" not in server.heard[1]
    assert "x-own: y" in server.heard[1]


async def test_a_redirect_may_be_an_answer_or_an_error() -> None:
    found = await asked(moves(302, "/next"), redirect=Redirect.MANUAL)
    assert (found.status, found.headers["location"]) == (302, "/next")
    refused = await refusal(moves(302, "/next"), redirect=Redirect.ERROR)
    assert "redirects, and redirect is 'error'" in str(refused)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"url": "ftp://a.test/"}, "wants an http or https URL"),
    ({"url": "/relative"}, "wants an http or https URL"),
    ({"url": "http://"}, "wants an http or https URL"),
    ({"url": "http://a.test:x/"}, "wants an http or https URL"),
    ({"url": "http://u:p@a.test/"}, "without a user and password"),
    ({"method": "CONNECT"}, "does not send the method 'CONNECT'"),
    ({"method": "A B"}, "does not send the method"),
    ({"headers": (("Host", "evil"),)}, "does not send the header 'Host'"),
    ({"headers": (("content-length", "1"),)}, "does not send the header"),
    ({"headers": (("Transfer-Encoding", "chunked"),)}, "does not send the header"),
    ({"headers": (("a b", "1"),)}, "does not send the header 'a b'"),
    ({"headers": (("x", "a\r\nHost: evil"),)}, "holds characters that no header may hold"),
    ({"headers": (("x", "\u20ac"),)}, "holds characters that no header may hold"),
    ({"body": b"x"}, "a GET has no body"),
    ({"method": "POST", "body": b"x" * 101}, "at most 100 bytes, this has 101"),
]


@pytest.mark.parametrize(("more", "message"), BAD)
async def test_what_cannot_be_sent_is_a_type_error(more: dict[str, Any], message: str) -> None:
    request = replace(Request(url="https://api.test/"), **more)
    asker = Asker(tool_id="t", egress=read_patterns(["*", "http://*"]))
    with pytest.raises(TypeError, match=message):
        await Egress(LIMITS, resolve=Dns({})).fetch(request, asker)


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await asked(says(answer()))).status == 200


# ---- TLS -----------------------------------------------------------------------------------------


async def test_tls_is_verified_for_the_name_although_the_address_was_chosen(
    tmp_path: Path,
) -> None:
    """Egress: "TLS is always verified"."""
    async with origin(says(answer()), serving("api.test", tmp_path)) as server:
        request = Request(url=f"https://api.test.:{server.port}/")
        out = way(server.port, allow=[f"*:{server.port}"], tls=trusting())
        asker = out.asker(f"api.test:{server.port}", f"b.test:{server.port}")
        assert (await out.egress.fetch(request, asker)).status == 200
        wrong = replace(request, url=f"https://b.test:{server.port}/")
        with pytest.raises(UpstreamUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await out.egress.fetch(wrong, asker)
        stranger = way(server.port, allow=[f"*:{server.port}"])
        with pytest.raises(UpstreamUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await stranger.egress.fetch(request, asker)


# ---- secrets -------------------------------------------------------------------------------------


async def test_a_secret_goes_where_its_handle_stands_to_a_named_host() -> None:
    """V7: "`fetch` puts the secret in its place"."""
    handles = Handles()
    handle = handles.new("token", "s3 same&")
    async with origin(says(answer())) as server:
        out = way(server.port)
        form = ("content-type", "application/x-www-form-urlencoded; charset=utf-8")
        sent = Request(
            url=f"http://api.test:{server.port}/?q={handle}",
            method="POST",
            headers=(("Authorization", f"Bearer {handle}"), form),
            body=f"t={handle}",
        )
        found = await out.egress.fetch(sent, out.asker(handles=handles))
        plain = replace(sent, headers=(), body=f'"{handle}"')
        await out.egress.fetch(plain, out.asker(handles=handles))
    heard, again = server.heard
    assert heard.startswith("POST /?q=s3%20same%26 ")
    assert "authorization: Bearer s3 same&\r\n" in heard
    assert heard.endswith("t=s3+same%26")
    assert again.endswith('"s3 same&"')
    assert found.url == sent.url


async def test_a_secret_goes_to_no_host_that_any_pattern_allows() -> None:
    """V7: "only for hosts that a pattern with a name (not `*`) allows"."""
    handles = Handles()
    handle = handles.new("token", "s3same")
    asker = Asker(tool_id="t", egress=read_patterns(["*"]), handles=handles)
    for more in (
        {"url": f"https://api.test/?{handle}"},
        {"headers": (("x", handle),)},
        {"method": "POST", "body": handle},
    ):
        request = replace(Request(url="https://api.test/"), **more)
        with pytest.raises(EgressDenied, match='"t" may not send the secret token to'):
            await Egress(LIMITS, resolve=Dns({})).fetch(request, asker)


async def test_a_secret_that_no_header_can_hold_is_not_sent() -> None:
    handles = Handles()
    headers = (("x", handles.new("pem", "a\nHost: evil")),)
    asker = Asker(tool_id="t", egress=read_patterns(["api.test"]), handles=handles)
    with pytest.raises(TypeError, match="the secret pem cannot stand in a header"):
        request = Request(url="https://api.test/", headers=headers)
        await Egress(LIMITS, resolve=Dns({})).fetch(request, asker)


async def test_a_secret_does_not_follow_a_redirect_to_another_origin() -> None:
    handles = Handles()
    headers = (("x-token", handles.new("token", "s3same")),)
    async with origin(moves(307, "http://b.test:PORT/next")) as server:
        out = way(server.port)
        request = Request(url=f"http://api.test:{server.port}/", headers=headers)
        await out.egress.fetch(request, out.asker(handles=handles))
    assert "s3same" in server.heard[0]
    assert "x-token" not in server.heard[1]


async def test_a_handle_anywhere_else_is_inert_text() -> None:
    handles = Handles()
    handle = handles.new("token", "s3same")
    async with origin(says(answer())) as server:
        out = way(server.port)
        url = f"http://api.test:{server.port}/{handle}"
        request = Request(url=url, method="POST", body=handle.encode())
        await out.egress.fetch(request, out.asker(handles=handles))
    assert "s3same" not in server.heard[0]
    assert server.heard[0].endswith(handle)
