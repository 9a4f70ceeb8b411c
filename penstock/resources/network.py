"""Sends one request to a checked address, with limits on the size of the response.

Guarantees: a connection goes only to an address that the caller has checked, because a second look
into DNS could return another one. TLS still verifies the name of the host. Headers and the unpacked
body are bounded while they arrive, because a compressed piece can expand to a thousand times its
size. Redirects are not followed here (`redirects`), and no connection is used twice. An error says
whether the request had been sent: that decides whether it may be repeated.

Shown by tests/resources/test_network.py.
"""

import asyncio
import socket
import ssl
import zlib
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from httpcore2 import (
    AnyIOBackend,
    AsyncConnectionPool,
    AsyncNetworkBackend,
    AsyncNetworkStream,
    ConnectError,
    ConnectTimeout,
    NetworkError,
    ProtocolError,
    Response,
    TimeoutException,
)
from msgspec import Struct

from penstock.core.call_errors import OutputTooLarge, UpstreamUnavailable
from penstock.core.limits import KIB
from penstock.resources.egress import HttpResponse
from penstock.resources.hosts import Endpoint

HEADER_BYTES = 64 * KIB
"""Maximum size of response headers in bytes."""

_BODILESS = {204, 304}
_PACKED = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class WireRequest(Struct, frozen=True, kw_only=True):
    """A request ready to send."""

    method: str
    url: str
    place: Endpoint
    headers: Mapping[str, str]
    body: bytes | None


async def exchange(
    sent: WireRequest,
    addresses: Sequence[str],
    *,
    tls: ssl.SSLContext,
    max_bytes: int,
) -> HttpResponse:
    """Send a request to one of the addresses, on a new connection.

    Raises UpstreamUnavailable and OutputTooLarge.
    """
    checked = cast("AsyncNetworkBackend", _Checked(addresses))
    pool = AsyncConnectionPool(ssl_context=tls, max_connections=1, network_backend=checked)
    named = [(name.encode(), value.encode("latin-1")) for name, value in sent.headers.items()]
    stream = pool.stream(sent.method, sent.url, headers=named, content=sent.body)
    try:
        async with pool, stream as response:
            headers = _headers(response, sent.place)
            body = await _body(response, sent, headers, max_bytes)
    except (NetworkError, ProtocolError, TimeoutException, ssl.SSLError, OSError) as error:
        raise _failure(sent.place, error) from error
    return HttpResponse(status=response.status, url=sent.url, headers=headers, body=body)


async def ask_dns(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host from the system resolver."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in infos]


class _Checked:
    """Connects only to the checked addresses: a second DNS lookup could return others."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._inner = AnyIOBackend()

    async def connect_tcp(self, host: str, port: int, **options: Any) -> AsyncNetworkStream:
        """Connect to the first reachable address. TLS still verifies the host name."""
        *others, last = self._addresses
        for address in others:
            try:
                return await self._inner.connect_tcp(address, port, **options)
            except (ConnectError, ConnectTimeout):
                continue
        return await self._inner.connect_tcp(last, port, **options)


def _headers(response: Response, place: Endpoint) -> dict[str, str]:
    size = sum(len(name) + len(value) + 4 for name, value in response.headers)
    if size > HEADER_BYTES:
        raise OutputTooLarge(
            f"{place} sent {size} bytes of headers; at most {HEADER_BYTES} are read"
        )
    joined: dict[str, str] = {}
    for raw_name, raw_value in response.headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


async def _body(
    response: Response, sent: WireRequest, headers: Mapping[str, str], most: int
) -> bytes:
    """Return the body. Decompresses in pieces, so that memory stays within the limit."""
    if not most or sent.method == "HEAD" or response.status in _BODILESS:
        return b""
    packing = headers.get("content-encoding", "identity").strip().lower()
    unpack = _Unpacked(packing) if packing in _PACKED else _Plain()
    content = bytearray()
    async with aclosing(response.aiter_stream()) as pieces:
        async for piece in pieces:
            content += unpack.take(piece, most + 1 - len(content))
            if len(content) > most:
                raise OutputTooLarge(f"{sent.place} sent more than {most} bytes")
    return bytes(content)


class _Plain:
    """Bytes without compression."""

    def take(self, piece: bytes, most: int) -> bytes:
        """Return the piece."""
        return piece


class _Unpacked:
    """Compressed bytes. A piece can expand to a thousand times its size, so output is limited."""

    def __init__(self, packing: str) -> None:
        self._packing = packing
        self._inner = zlib.decompressobj(_PACKED[packing])
        self._is_first = True

    def take(self, piece: bytes, most: int) -> bytes:
        """Return the decompressed piece, at most `most` bytes."""
        try:
            return self._inner.decompress(piece, most)
        except zlib.error as error:
            if self._is_first and self._packing == "deflate":  # some servers omit the zlib header
                self._inner = zlib.decompressobj(-zlib.MAX_WBITS)
                self._packing = "raw"
                return self.take(piece, most)
            raise ProtocolError(f"the body is not {self._packing}: {error}") from error
        finally:
            self._is_first = False


def _failure(place: Endpoint, error: Exception) -> UpstreamUnavailable | OutputTooLarge:
    message = str(error) or type(error).__name__
    if "Receive buffer too long" in message:
        return OutputTooLarge(f"{place} sent more headers than are read")
    was_sent = not isinstance(error, ConnectError | ConnectTimeout)
    details = {"sent": True} if was_sent else None
    return UpstreamUnavailable(f"{place} did not answer: {message}", details=details)
