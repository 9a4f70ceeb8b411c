"""The one way out, to real servers on this machine."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.call_errors import EgressDenied, UpstreamUnavailable
from penstock.resources.egress import Egress, EgressCaller, Request
from penstock.resources.hosts import read_patterns
from penstock.resources.vault import SecretHandles
from tests.kit.local_egress import HERE, LIMITS, Dns, asked, way
from tests.kit.origin import answer, origin, says, serving, trusting

pytestmark = pytest.mark.programs


async def test_a_response_is_returned_whatever_its_status() -> None:
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


# ---- permitted hosts -----------------------------------------------------------------------------


async def test_a_host_must_match_before_dns_is_asked() -> None:
    """Egress: "**and** `egress.allow`, before DNS is asked; else `EGRESS_DENIED` naming host"."""
    out = way(80, allow=["https://*.good.test"])
    for patterns, said in [
        (["other.test"], '"t" may not reach https://api.test: no pattern of its egress allows it'),
        ([], '"t" may not reach https://api.test: no pattern of its egress allows it'),
        (["api.test"], "no pattern of egress.allow in penstock.toml allows it"),
    ]:
        asker = EgressCaller(tool_id="t", egress=read_patterns(patterns))
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
                Request(url="https://api.test/"), EgressCaller(tool_id="t", egress=declared)
            )


SPELLED = ["http://127.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/"]


@pytest.mark.parametrize("url", SPELLED)
async def test_an_address_in_the_url_is_checked_too(url: str) -> None:
    asker = EgressCaller(tool_id="t", egress=read_patterns(["http://*"]))
    with pytest.raises(EgressDenied, match="not public"):
        await Egress(LIMITS, allow=["http://*"]).fetch(Request(url=url), asker)


HOSTILE = [
    "\uff11\uff12\uff17.0.0.1",
    "127。0。0。1",
    "127.0.0.①",
    "\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54",
    "localhost。",
]
HOSTILE += [
    "loc\u00adalhost",
    "local\u200dhost",
    "local\u200bhost",
    "127.1",
]


@pytest.mark.parametrize("host", HOSTILE)
async def test_no_spelling_of_this_machine_is_reached(host: str) -> None:
    asker = EgressCaller(tool_id="t", egress=read_patterns(["http://*"]))
    with pytest.raises(
        (EgressDenied, TypeError), match=r"not public|requires an http or https URL"
    ):
        await Egress(LIMITS, allow=["http://*"]).fetch(Request(url=f"http://{host}/"), asker)


@pytest.mark.parametrize("url", ["https://bücher.test/", "https://xn--bcher-kva.test/"])
async def test_an_international_host_is_one_host_in_any_spelling(url: str) -> None:
    dns = Dns({"xn--bcher-kva.test": ["10.0.0.1"]})
    asker = EgressCaller(tool_id="t", egress=read_patterns(["BÜCHER.test", "xn--bcher-kva.test"]))
    out = Egress(LIMITS, allow=["*.test"], resolve=dns)
    with pytest.raises(EgressDenied, match=r"https://xn--bcher-kva\.test: it has an address"):
        await out.fetch(Request(url=url), asker)
    assert dns.asked == ["xn--bcher-kva.test"]


async def test_a_private_address_is_reached_only_by_a_named_host() -> None:
    async with origin(says(answer())) as server:
        out = way(server.port)
        assert (await out.get()).status == 200
        with pytest.raises(EgressDenied, match="not public"):
            await out.get("/", f"http://*:{server.port}")


async def test_the_connection_uses_the_checked_address() -> None:
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


# ---- what may be asked ---------------------------------------------------------------------------


BAD: list[tuple[dict[str, Any], str]] = [
    ({"url": "ftp://a.test/"}, "requires an http or https URL"),
    ({"url": "/relative"}, "requires an http or https URL"),
    ({"url": "http://"}, "requires an http or https URL"),
    ({"url": "http://a.test:x/"}, "requires an http or https URL"),
    ({"url": "http://u:p@a.test/"}, "without a user and password"),
    ({"method": "CONNECT"}, "does not send the method 'CONNECT'"),
    ({"method": "A B"}, "does not send the method"),
    ({"headers": (("Host", "evil"),)}, "does not send the header 'Host'"),
    ({"headers": (("content-length", "1"),)}, "does not send the header"),
    ({"headers": (("Transfer-Encoding", "chunked"),)}, "does not send the header"),
    ({"headers": (("a b", "1"),)}, "does not send the header 'a b'"),
    ({"headers": (("x", "a\r\nHost: evil"),)}, "has characters that are not allowed in a header"),
    ({"headers": (("x", "\u20ac"),)}, "has characters that are not allowed in a header"),
    ({"body": b"x"}, "a GET has no body"),
    ({"method": "POST", "body": b"x" * 101}, "at most 100 bytes, this has 101"),
]


@pytest.mark.parametrize(("more", "message"), BAD)
async def test_a_malformed_request_is_a_type_error(more: dict[str, Any], message: str) -> None:
    request = replace(Request(url="https://api.test/"), **more)
    asker = EgressCaller(tool_id="t", egress=read_patterns(["*", "http://*"]))
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


@pytest.mark.parametrize("kind", ["application/json", "application/ld+json; charset=utf-8"])
async def test_a_secret_in_json_is_spelled_as_json(kind: str) -> None:
    """A key of several lines, or with a quote, stays one text."""
    handles = SecretHandles()
    handle = handles.new("token", 'BEGIN "é"\nEND')
    async with origin(says(answer(b""))) as server:
        sent = Request(
            url=f"http://api.test:{server.port}/",
            method="POST",
            headers=(("content-type", kind),),
            body=json.dumps({"k": handle}),
        )
        out = way(server.port)
        await out.egress.fetch(sent, out.asker(handles=handles))
    body = server.heard[0].partition("\r\n\r\n")[2]
    assert json.loads(body.encode("latin-1")) == {"k": 'BEGIN "é"\nEND'}


async def test_a_handle_becomes_its_secret_for_a_named_host() -> None:
    """V7: "`fetch` puts the secret in its place"."""
    handles = SecretHandles()
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


async def test_a_secret_is_not_sent_to_a_host_that_only_a_wildcard_allows() -> None:
    """V7: "only for hosts that a pattern with a name (not `*`) allows"."""
    handles = SecretHandles()
    handle = handles.new("token", "s3same")
    asker = EgressCaller(tool_id="t", egress=read_patterns(["*"]), handles=handles)
    for more in (
        {"url": f"https://api.test/?{handle}"},
        {"headers": (("x", handle),)},
        {"method": "POST", "body": handle},
    ):
        request = replace(Request(url="https://api.test/"), **more)
        with pytest.raises(EgressDenied, match='"t" may not send the secret token to'):
            await Egress(LIMITS, resolve=Dns({})).fetch(request, asker)


async def test_a_secret_that_no_header_can_hold_is_not_sent() -> None:
    handles = SecretHandles()
    headers = (("x", handles.new("pem", "a\nHost: evil")),)
    asker = EgressCaller(tool_id="t", egress=read_patterns(["api.test"]), handles=handles)
    with pytest.raises(TypeError, match="the secret pem is not allowed in a header"):
        request = Request(url="https://api.test/", headers=headers)
        await Egress(LIMITS, resolve=Dns({})).fetch(request, asker)


async def test_a_handle_anywhere_else_is_inert_text() -> None:
    handles = SecretHandles()
    handle = handles.new("token", "s3same")
    async with origin(says(answer())) as server:
        out = way(server.port)
        url = f"http://api.test:{server.port}/{handle}"
        request = Request(url=url, method="POST", body=handle.encode())
        await out.egress.fetch(request, out.asker(handles=handles))
    assert "s3same" not in server.heard[0]
    assert server.heard[0].endswith(handle)


LIGHT = """
import sys
import penstock.app.opening, penstock.server.application
from penstock.core.limits import Limits
from penstock.resources.egress import Egress
Egress(Limits())
heavy = {"cryptography", "httpcore2", "httpx2", "obstore", "psycopg", "wasmtime"}
print(sorted(heavy & sys.modules.keys()))
"""


@pytest.mark.slow("starts a Python of its own")
def test_a_server_without_requests_loads_no_http_client() -> None:
    """Nor what opens secrets, reaches buckets, speaks to Postgres or runs scripts."""
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


async def test_a_refusal_under_a_star_names_the_entry_to_add() -> None:
    """`*` any public host (https)."""
    out, asker = (
        way(80, allow=["*"]),
        EgressCaller(tool_id="t", egress=read_patterns(["http://a.test"])),
    )
    with pytest.raises(EgressDenied) as denied:
        await out.egress.fetch(Request(url="http://a.test/"), asker)
    assert str(denied.value) == (
        '"t" may not reach http://a.test: no pattern of egress.allow in penstock.toml allows it '
        '("*" is every host, by https on port 443)'
    )
    assert denied.value.suggestion == 'Add "http://a.test" to egress.allow in penstock.toml.'
