"""Requests that are sent on: where to, with which method, and without what."""

import asyncio

import pytest

from penstock.core.call_errors import CallError, EgressDenied, UpstreamUnavailable
from penstock.resources.egress import Egress, EgressCaller, Redirect, Request
from penstock.resources.hosts import read_patterns
from penstock.resources.vault import SecretHandles
from tests.kit.local_egress import LIMITS, asked, refusal, way
from tests.kit.origin import Say, answer, origin


def moves(status: int, location: str) -> Say:
    """Redirect requests for `/`."""

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


async def test_a_secret_does_not_follow_a_redirect_to_another_origin() -> None:
    handles = SecretHandles()
    headers = (("x-token", handles.new("token", "s3same")),)
    async with origin(moves(307, "http://b.test:PORT/next")) as server:
        out = way(server.port)
        request = Request(url=f"http://api.test:{server.port}/", headers=headers)
        await out.egress.fetch(request, out.asker(handles=handles))
    assert "s3same" in server.heard[0]
    assert "x-token" not in server.heard[1]


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fe80::1", "fd00:ec2::254", "168.63.129.16"]
)
async def test_no_name_leads_to_a_link_local_or_metadata_address(address: str) -> None:
    """`egress.allow_private`: "but link-local … only as literal `ip:port`"."""
    found = way(9)
    found.dns.known = {"api.test": [address]}
    with pytest.raises(EgressDenied, match="link-local address"):
        await found.get()
    literal = Egress(LIMITS, allow=["http://*:9"], allow_private=["169.254.169.254:9"])
    asker = EgressCaller(tool_id="t", egress=read_patterns(["http://169.254.169.254:9"]))
    request = Request(url="http://169.254.169.254:9/", seconds=0.05)
    with pytest.raises(UpstreamUnavailable):
        await literal.fetch(request, asker)


async def test_a_private_pattern_covers_the_names_below_it() -> None:
    """`egress.allow_private` = `host:port`, `*.corp.example:443` or `ip:port`."""
    async with origin(lambda _, writer: say_there(writer)) as server:
        found = way(server.port)
        below = [f"*.test:{server.port}"]
        allow = [f"http://*:{server.port}"]
        egress = Egress(LIMITS, allow=allow, allow_private=below, resolve=found.dns)
        request = Request(url=f"http://api.test:{server.port}/")
        assert (await egress.fetch(request, found.asker())).body == b"there"


async def say_there(writer: asyncio.StreamWriter) -> None:
    writer.write(answer(b"there"))
