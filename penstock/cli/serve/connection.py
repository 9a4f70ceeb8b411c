"""One HTTP connection with limits on the size and the slowness of requests.

uvicorn's protocols wait forever for the rest of a head or a body, and httptools collects a head of
any size. `bounded` creates a subclass of either protocol (h11, httptools) that guarantees, before
any key is checked:

- a head has at most 64 KiB, else 431, and is complete within `head_seconds`, else 408;
- the framing of a body (chunk sizes, their extensions, trailers) takes at most 64 KiB more
  than the content, else 413; trailers are dropped;
- a body arrives at `MIN_BODY_BYTES_PER_SECOND` or faster after `body_seconds`, else 408. Time in
  which the server itself does not read (back pressure, `Expect: 100-continue`) does not count;
- bytes that a client sends after it has its answer are read for at most `head_seconds`;
- requests that a client sends ahead (pipelining) wait as bytes, at most one read of them. uvicorn's
  httptools parses all of them on arrival: 15 MB of requests took 570 MB;
- a request of another major version than HTTP/1 gets 505; a request that a proxy in front may parse
  differently (request smuggling) gets 400: `Content-Length` with `Transfer-Encoding`, several
  `Host`, or a host in its target. No bytes after it are parsed as a request;
- a client that reads nothing of an answer for `stalled_seconds` is disconnected.

Errors of the protocol itself (`send_400_response`) have the JSON form of all other errors.

There is no timer per connection: the server calls `check` for all of them at its ticks. An open
event stream has a complete request, so only the last rule applies to it.

Relies on these names of uvicorn's protocols: `conn` with `next_event` (h11), `on_body`,
`on_header`, `on_headers_complete`, `on_message_complete`, `parser`, `headers`, `url`, `pipeline`
(httptools), `on_response_complete`, `send_400_response`, `_unsupported_upgrade_warning`,
`transport`, `flow`, `connections`, `app`, and `cycle` with `more_body`, `response_started`,
`response_complete`, `disconnected`, `message_event` and `waiting_for_100_continue`. A version of
uvicorn that renames one of them fails the proof, which runs on both protocols with raw sockets:
tests/cli/serve/test_connection.py.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from msgspec import Struct

from penstock.core.errors import BadRequest, NotReady, TooLarge
from penstock.core.json_values.json_text import compact
from penstock.core.limits import KIB, Limits
from penstock.server.application import refuse_as_full

HEAD_BYTES = 64 * KIB
"""Most bytes of a request's first line and headers, and of a body's chunk headers and trailers."""
MIN_BODY_BYTES_PER_SECOND = KIB
"""The slowest body. Slower than any modem, so only an attack is refused; the largest body occupies
its connection for at most 17 minutes."""

_LINGER_SECONDS = 2.0
"""How long a refused client may continue to send. A connection that closes while bytes arrive is
reset, and the client would not see the answer."""
_SLICE = 64 * KIB
"""How much of a body is parsed before its framing is checked; a read may return four times that."""
_PART = 4 * KIB
"""How much of a head is parsed at once: pipelined requests are noticed only between two parts."""
_LINGER_BEYOND_SECONDS = 0.5
"""How long a connection beyond the spare ones may take to send a request; others wait for it."""
_TWO_LENGTHS = {b"content-length", b"transfer-encoding"}
_MAX_BEYOND = 16
"""Connections beyond the spare ones; their descriptors come from the reserve."""


class ConnectionLimit(Struct, frozen=True):
    """How many connections there may be."""

    served: int
    """How many connections are served."""
    spare: int
    """How many more are accepted and answered with 503, except requests for health."""
    highest: int
    """A connection whose descriptor has a higher number also gets 503.

    The system assigns the lowest free number, so a high number shows that tasks have taken more
    than their share of descriptors.
    """

    @property
    def most(self) -> int:
        """The maximum number of accepted connections; further clients wait in the system's queue.

        Connections beyond the spare ones also get 503, and end within half a second.
        """
        return self.served + self.spare + min(self.spare, _MAX_BEYOND)

    @property
    def last(self) -> int:
        """The descriptor number from which on accepting pauses."""
        return self.highest + _MAX_BEYOND


def bounded(
    protocol: type[asyncio.Protocol], limits: Limits, room: ConnectionLimit
) -> type["BoundedConnection"]:
    """Return a subclass of one of uvicorn's HTTP protocols that enforces these limits."""
    return type(protocol.__name__, (BoundedConnection, protocol), {"limits": limits, "room": room})


class BoundedConnection(asyncio.Protocol):
    """A connection that refuses requests that are too large or too slow."""

    limits: Limits
    room: ConnectionLimit
    app: Any
    connections: set[Any]
    cycle: Any = None
    flow: Any
    headers: list[tuple[bytes, bytes]]
    parser: Any
    url: bytes
    pipeline: Collection[Any] = ()
    """Requests that httptools parsed while an earlier one is answered."""
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    on_lost: Callable[["BoundedConnection"], None] | None = None
    """Called once, when the connection has ended."""

    _held = b""
    """Received bytes that are not parsed yet."""
    _seen: Any = None
    """The last request cycle whose complete head was noticed."""
    _head_since: float | None = None
    """When the current head started to arrive; None between requests."""
    _head_bytes = 0
    _body_since = 0.0
    _body_bytes = 0
    _content_bytes = 0
    """How many bytes of body content the protocol has parsed."""
    _framing_bytes = 0
    """By how much framing exceeds content. Content makes up for earlier framing, not for later."""
    _drained_since: float | None = None
    _stalled: tuple[int, float] | None = None
    """How many bytes the client has not read yet, and since when it has read nothing."""
    _refused_at: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the connection, or prepare to refuse it if there are too many."""
        super().connection_made(transport)
        if (conn := getattr(self, "conn", None)) is not None:
            conn.next_event = partial(self._next_event, conn.next_event)
        self._head_since = self.loop.time()
        over = len(self.connections) - self.room.served
        if transport.get_extra_info("socket").fileno() > self.room.highest:
            over = max(over, 1)
        if over > 0:
            self.app = partial(refuse_as_full, self.app)
        if over > self.room.spare:
            self.loop.call_later(_LINGER_BEYOND_SECONDS, self._end_beyond)

    def _end_beyond(self) -> None:
        """Close a connection beyond the spare ones, unless the answer being sent does."""
        if self._is_answering or self.transport.is_closing():
            return
        if self.cycle is None or not self.cycle.response_complete:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, NotReady.code, "too many connections")
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the acceptor that there is room for another connection."""
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost(self)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, unless an earlier request still waits for its answer."""
        if self._refused_at is not None:
            return
        self._held = self._held + data if self._held else data
        self._parse_held()

    def on_response_complete(self) -> None:
        """Parse the bytes that the client sent before it had this answer."""
        with suppress(BadRequest):
            super().on_response_complete()  # type: ignore[misc]
        self._note_head(0)
        self._parse_held()

    def _parse_held(self) -> None:
        while self._held and self._refused_at is None and not self.transport.is_closing():
            if self._is_answering:
                self.flow.pause_reading()
                return
            room = HEAD_BYTES - self._head_bytes
            if not self._is_in_body and room <= 0:
                self._refuse(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                    TooLarge.code,
                    f"the head of a request may have at most {HEAD_BYTES} bytes",
                )
                return
            size = _SLICE if self._is_in_body else min(_PART, room)
            part, self._held = self._held[:size], self._held[size:]
            with suppress(BadRequest):
                self._feed(part)

    def on_headers_complete(self) -> None:
        """Check the head. httptools calls this."""
        names = [name for name, _ in self.headers]
        self._check_head(self.parser.get_http_version(), self.url, names)
        super().on_headers_complete()  # type: ignore[misc]

    def _check_head(self, version: str, target: bytes, names: Sequence[bytes]) -> None:
        """Refuse an ambiguous head. The exception stops the parser before any later bytes."""
        status = HTTPStatus.BAD_REQUEST
        if not version.startswith("1."):
            status = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
            message = f"this server supports HTTP/1.1, found HTTP/{version}"
        elif _TWO_LENGTHS.issubset(names):
            message = "expected Content-Length or Transfer-Encoding, found both"
        elif names.count(b"host") > 1:
            message = "expected one Host header, found several"
        elif target[:1] != b"/" and target != b"*":
            message = "this server is not a proxy: the request target must be a path"
        else:
            return
        self._refuse(status, BadRequest.code, message)
        raise BadRequest(message)

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing if a client offers HTTP/2 or WebSockets; the answer is HTTP/1.1."""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Drop trailers, which httptools reports here: uvicorn would add them to the head."""
        if not self._is_in_body:
            super().on_header(name, value)  # type: ignore[misc]

    def on_body(self, body: bytes) -> None:
        """Count content. httptools calls this."""
        self._content_bytes += len(body)
        super().on_body(body)  # type: ignore[misc]

    def _next_event(self, next_event: Callable[[], Any]) -> Any:
        """Check heads and count content, which h11 reports as events."""
        event = next_event()
        if (version := getattr(event, "http_version", None)) is not None:
            names = [name for name, _ in event.headers]
            self._check_head(version.decode(), event.target, names)
        self._content_bytes += len(getattr(event, "data", b""))
        return event

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request. In some states, h11 itself cannot send an answer any more."""
        self._refuse(HTTPStatus.BAD_REQUEST, BadRequest.code, msg)

    def on_message_complete(self) -> None:
        """Note the end of a body whose request is already answered. Only httptools calls this."""
        if self.cycle is not None and self.cycle.response_complete:
            self.cycle.more_body = False
        super().on_message_complete()  # type: ignore[misc]

    def shutdown(self) -> None:
        """Close when the server stops. A refused connection is aborted: ticks have ended."""
        if self._refused_at is None:
            super().shutdown()  # type: ignore[misc]
        else:
            self.transport.abort()

    def check(self, now: float, passed: float) -> None:
        """Close the connection if its client is too slow; `passed`: seconds since last time."""
        self._note_head(0)
        if self._refused_at is not None:
            if now - self._refused_at > _LINGER_SECONDS:
                self._cut()
            return
        self._check_reader(now)
        cycle = self.cycle
        if self.transport.is_closing():
            return
        if self._is_in_body:
            self._check_body(now, passed)
        elif cycle is None or cycle.response_complete:
            seconds = self.limits.head_seconds
            if self._head_since is not None and now - self._head_since > seconds:
                self._refuse_slow(f"the head was not complete within {seconds:g} s")

    def _check_body(self, now: float, passed: float) -> None:
        limits = self.limits
        if self.cycle.response_complete:
            self._drained_since = self._drained_since or now
            if now - self._drained_since > limits.head_seconds:
                self.transport.close()  # no reset: the client may not have read the answer yet
        elif self.flow.read_paused or self.cycle.waiting_for_100_continue:
            self._body_since += passed  # the server does not read: this time does not count
        elif now - self._body_since > limits.body_seconds + (
            self._body_bytes / MIN_BODY_BYTES_PER_SECOND
        ):
            self._refuse_slow(
                f"the body arrived slower than {MIN_BODY_BYTES_PER_SECOND} bytes per second"
            )

    @property
    def _is_in_body(self) -> bool:
        return self.cycle is not None and self.cycle.more_body

    @property
    def _is_answering(self) -> bool:
        """Whether a completely received request waits for its answer."""
        cycle = self.cycle
        if cycle is None:
            return False
        return bool(self.pipeline) or not (cycle.more_body or cycle.response_complete)

    def _feed(self, data: bytes) -> None:
        if is_in_body := self._is_in_body:
            self._body_bytes += len(data)
        elif self._head_since is None:
            self._head_since = self.loop.time()
        content = self._content_bytes
        super().data_received(data)
        self._note_head(len(data))
        if is_in_body and self._is_in_body:
            self._check_framing(len(data), self._content_bytes - content)
        if is_in_body and not self._is_in_body and self.cycle.response_complete:
            # The request was answered before its body ended: from here on, time counts for the
            # next head.
            self._head_since = self.loop.time()
        elif not is_in_body and self._head_since is not None:
            self._head_bytes += len(data)

    def _note_head(self, received: int) -> None:
        """Note that a head is complete. h11 may parse a pipelined head at any time."""
        if self.cycle is not self._seen:
            self._seen = self.cycle
            self._head_since, self._head_bytes, self._drained_since = None, 0, None
            self._body_since, self._body_bytes = self.loop.time(), received
            self._framing_bytes = 0

    def _check_framing(self, received: int, content: int) -> None:
        self._framing_bytes = max(self._framing_bytes + received - 2 * content, 0)
        if self._framing_bytes > HEAD_BYTES and self._refused_at is None:
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                TooLarge.code,
                "the chunk headers and trailers of a body may take at most "
                f"{HEAD_BYTES} bytes more than its content",
            )

    def _check_reader(self, now: float) -> None:
        """Disconnect a client that reads nothing. Paused writing adds nothing to the buffer."""
        if not self.flow.write_paused and not self.transport.is_closing():
            self._stalled = None
            return
        left = self.transport.get_write_buffer_size()
        if self._stalled is None or left < self._stalled[0]:
            self._stalled = (left, now)
        elif now - self._stalled[1] > self.limits.stalled_seconds:
            self._cut()

    def _cut(self) -> None:
        """Reset the connection, so that the system drops unsent bytes instead of keeping them."""
        with suppress(OSError):  # the socket may be closed
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        self.transport.abort()

    def _refuse_slow(self, message: str) -> None:
        if self._head_since is not None and not self._head_bytes:
            self.transport.close()  # no byte of a request arrived, so there is nothing to answer
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, BadRequest.code, message)

    def _refuse(self, status: HTTPStatus, code: str, message: str) -> None:
        """Send an error, unless an answer has started, and stop reading."""
        if self._refused_at is not None:
            return
        self._refused_at, self._held = self.loop.time(), b""
        cycle = self.cycle
        is_free = cycle is None or cycle.response_complete
        if self._is_in_body and cycle.response_complete:
            is_free = False  # this request was already answered
        elif not is_free:
            is_free = cycle.more_body and not cycle.response_started
            cycle.disconnected = True
            cycle.message_event.set()
        if is_free:
            self.transport.write(_answer(status, code, message))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()


def _answer(status: HTTPStatus, code: str, message: str) -> bytes:
    body = compact({"error": {"code": code, "message": message}}).encode()
    retry = "retry-after: 1\r\n" if status is HTTPStatus.SERVICE_UNAVAILABLE else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n{retry}connection: close\r\n\r\n"
    )
    return head.encode() + body
