"""One exchange with another server: bounds, packing, servers that break off or say nothing."""

import gzip
import zlib

import pytest

from penstock.core.call_errors import OutputTooLarge, UpstreamUnavailable
from tests.kit.local_egress import asked, refusal, way
from tests.kit.origin import answer, origin, says


def packed(body: bytes, packing: str = "gzip") -> bytes:
    return answer(body, "200 OK", f"content-encoding: {packing}")


RAW_DEFLATE = zlib.compress(b"x" * 900)[2:-4]
UNPACKED = [
    packed(gzip.compress(b"x" * 900, mtime=0)),
    packed(zlib.compress(b"x" * 900), "deflate"),
    packed(RAW_DEFLATE, "Deflate"),
    answer(b"x" * 900, "200 OK", "content-encoding: identity"),
]


@pytest.mark.parametrize("expected", UNPACKED)
async def test_a_packed_body_is_unpacked(expected: bytes) -> None:
    assert (await asked(says(expected))).body == b"x" * 900


TOO_LARGE = [
    answer(b"x" * 1001),
    b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000,
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3e9\r\n"
    + b"x" * 1001
    + b"\r\n0\r\n\r\n",
    packed(gzip.compress(b"\x00" * 5_000_000, mtime=0)),
    packed(zlib.compress(b"\x00" * 5_000_000), "deflate"),
    answer(b"", "200 OK", "x: " + "y" * 66_000),
    answer(b"", "200 OK", "x: " + "y" * 300_000),
    answer(b"", "200 OK", *["x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"] * 1500),
]


@pytest.mark.parametrize("expected", TOO_LARGE)
async def test_an_answer_over_its_cap_is_cut(expected: bytes) -> None:
    assert type(await refusal(says(expected))) is OutputTooLarge


async def test_a_caller_may_want_more_or_less_of_an_answer() -> None:
    assert len((await asked(says(answer(b"x" * 2000)), max_bytes=2000)).body) == 2000
    assert type(await refusal(says(answer(b"xx")), max_bytes=1)) is OutputTooLarge


BROKEN = [
    b"",
    b"nonsense\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
    b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    packed(b"this is no gzip"),
    packed(b"nor deflate", "deflate"),
]


@pytest.mark.parametrize("expected", BROKEN)
async def test_an_invalid_response_is_upstream_unavailable(expected: bytes) -> None:
    """Egress: "only no answer rejects (`UPSTREAM_UNAVAILABLE`)"."""
    assert type(await refusal(says(expected))) is UpstreamUnavailable


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nx:", b"HTTP/1.1 200 OK\r\n\r\na"])
async def test_a_slow_server_times_out(first: bytes) -> None:
    async with origin(says(first), hangs=True) as slow:
        with pytest.raises(UpstreamUnavailable, match=r"did not answer within 0\.1 seconds"):
            await way(slow.port).get(seconds=0.1)


async def test_a_missing_server_is_unavailable() -> None:
    async with origin(says()) as server:
        port = server.port
    with pytest.raises(UpstreamUnavailable, match="did not answer"):
        await way(port).get()
    out = way(port)
    out.dns.known = {}
    with pytest.raises(UpstreamUnavailable, match=r"api\.test is not known: no such name"):
        await out.get()
