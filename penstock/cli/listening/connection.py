"""One HTTP connection within bounds: how large and how slow a request may be.

uvicorn's protocols wait for ever for the rest of a head or a body, and httptools collects a head
of any size. `bounded` makes a subclass of either protocol (h11, httptools) that guarantees, before
any key is checked:

- a head has at most `head_bytes`, else 431, and is complete within `head_seconds`, else 408;
- what frames a body (chunk sizes, their extensions, trailers) takes at most `head_bytes` more than
  the content, else 413; trailers are not kept;
- a body arrives at `body_bytes_per_second` or faster after `body_seconds`, else 408. Time in which
  the server itself does not read (back pressure, `Expect: 100-continue`) does not count;
- what a client still sends after it has its answer is read for `head_seconds` at most;
- requests that a client sends ahead (pipelining) wait as bytes, at most one read of them. uvicorn's
  httptools parses all that arrive: 15 MB of them took 570 MB;
- a request of another major version than HTTP/1 gets 505; one that a proxy in front may read in
  another way gets 400: with `Content-Length` and `Transfer-Encoding`, with several `Host`, or with
  a host in its target. Nothing behind them is read as a request;
- a client that takes nothing of an answer for `stalled_seconds` is cut.

What the protocol itself refuses (`send_400_response`) has the form of all refusals.

There is no timer per connection: the server calls `look` for all of them once a tick. An open
event stream has a complete request, so only the last rule applies to it.

It relies on these names of uvicorn's protocols: `conn` with `next_event` (h11), `on_body`,
`on_header`, `on_headers_complete`, `on_message_complete`, `parser`, `headers`, `url`, `pipeline`
(httptools), `on_response_complete`, `send_400_response`, `_unsupported_upgrade_warning`,
`transport`, `flow`, `connections`, `app`, and `cycle` with `more_body`, `response_started`,
`response_complete`, `disconnected`, `message_event` and `waiting_for_100_continue`. Tests, on both
protocols and with raw sockets: tests/cli/listening/test_connection.py.
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
from penstock.core.json_values.canonical import compact
from penstock.core.limits import KIB, Limits
from penstock.server.application import refuse_as_full

_LINGER_SECONDS = 2.0
"""How long a refused client may go on sending: closed at once, it would not see the answer."""
_SLICE = 64 * KIB
"""So much of a body is parsed before its framing is looked at: a read may give four times that."""
_PART = 4 * KIB
"""So much of a head is parsed at once: requests that were sent ahead are noticed at its end."""
_LINGER_BEYOND_SECONDS = 0.5
"""So long has one beyond the spare ones to ask: others wait in the queue until it ends."""
_TWO_LENGTHS = {b"content-length", b"transfer-encoding"}
_MOST_BEYOND = 16
"""Connections beyond the spare ones; they take a part of the reserve of descriptors."""


class ConnectionLimit(Struct, frozen=True):
    """How many connections there may be."""

    served: int
    """So many are served."""
    spare: int
    """So many more are accepted and answered with 503, health apart."""
    highest: int
    """So are those whose descriptor has a higher number: work has taken more than its share.

    The system gives the lowest number that is free, so the number says how many are taken.
    """

    @property
    def most(self) -> int:
        """How many there are at most; a further one waits until it is accepted.

        Those beyond the spare ones are answered like them, and end within half a second.
        """
        return self.served + self.spare + min(self.spare, _MOST_BEYOND)

    @property
    def last(self) -> int:
        """After a connection with this descriptor, or a higher one, accepting pauses."""
        return self.highest + _MOST_BEYOND


def bounded(
    protocol: type[asyncio.Protocol], limits: Limits, room: ConnectionLimit
) -> type["BoundedConnection"]:
    """Return a subclass of one of uvicorn's HTTP protocols that keeps these bounds."""
    return type(protocol.__name__, (BoundedConnection, protocol), {"limits": limits, "room": room})


class BoundedConnection(asyncio.Protocol):
    """A connection that refuses what is too large or too slow."""

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
    """Requests that httptools parsed while another one is answered."""
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    on_lost: Callable[["BoundedConnection"], None] | None = None
    """Called once, when the connection has ended."""

    _held = b""
    """What was received and not parsed yet."""
    _seen: Any = None
    """The last cycle whose head was complete."""
    _head_since: float | None = None
    """When the head on its way began; None between requests."""
    _head_bytes = 0
    _body_since = 0.0
    _body_bytes = 0
    _content_bytes = 0
    """How much content of bodies the protocol has found."""
    _framing_bytes = 0
    """What framing has taken more than content. Content pays for earlier framing, not for later."""
    _drained_since: float | None = None
    _stalled: tuple[int, float] | None = None
    """How much the client has to take still, and since when it has taken nothing."""
    _refused_at: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the connection, or refuse it when there are too many."""
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
        """End a connection that is not a spare one, unless it ends with the answer under way."""
        if self._is_answering or self.transport.is_closing():
            return
        if self.cycle is None or not self.cycle.response_complete:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, NotReady.code, "too many connections")
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Say that there is room for another."""
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost(self)

    def data_received(self, data: bytes) -> None:
        """Parse what was received, as far as no earlier request waits for its answer."""
        if self._refused_at is not None:
            return
        self._held = self._held + data if self._held else data
        self._parse_held()

    def on_response_complete(self) -> None:
        """Continue with what the client sent before it had this answer."""
        with suppress(BadRequest):
            super().on_response_complete()  # type: ignore[misc]
        self._note_head(0)
        self._parse_held()

    def _parse_held(self) -> None:
        while self._held and self._refused_at is None and not self.transport.is_closing():
            if self._is_answering:
                self.flow.pause_reading()
                return
            room = self.limits.head_bytes - self._head_bytes
            if not self._is_in_body and room <= 0:
                self._refuse(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                    TooLarge.code,
                    f"the head of a request has at most {self.limits.head_bytes} bytes",
                )
                return
            size = _SLICE if self._is_in_body else min(_PART, room)
            part, self._held = self._held[:size], self._held[size:]
            with suppress(BadRequest):
                self._feed(part)

    def on_headers_complete(self) -> None:
        """Check the head; httptools calls it."""
        names = [name for name, _ in self.headers]
        self._check_head(self.parser.get_http_version(), self.url, names)
        super().on_headers_complete()  # type: ignore[misc]

    def _check_head(self, version: str, target: bytes, names: Sequence[bytes]) -> None:
        """Refuse what may mean two things. The exception ends the parsing of the rest."""
        status = HTTPStatus.BAD_REQUEST
        if not version.startswith("1."):
            status = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
            message = f"this server speaks HTTP/1.1, found HTTP/{version}"
        elif _TWO_LENGTHS.issubset(names):
            message = "a request has Content-Length or Transfer-Encoding, found both"
        elif names.count(b"host") > 1:
            message = "a request has one Host, found several"
        elif target[:1] != b"/" and target != b"*":
            message = "this server is no proxy: a request names a path, and its host in Host"
        else:
            return
        self._refuse(status, BadRequest.code, message)
        raise BadRequest(message)

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing where a client offers HTTP/2 or WebSockets: it is answered in HTTP/1.1."""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Drop trailers, of which httptools tells like this: uvicorn would add them to the head."""
        if not self._is_in_body:
            super().on_header(name, value)  # type: ignore[misc]

    def on_body(self, body: bytes) -> None:
        """Count content; httptools calls it."""
        self._content_bytes += len(body)
        super().on_body(body)  # type: ignore[misc]

    def _next_event(self, next_event: Callable[[], Any]) -> Any:
        """Check heads and count content, of which h11 tells by events."""
        event = next_event()
        if (version := getattr(event, "http_version", None)) is not None:
            names = [name for name, _ in event.headers]
            self._check_head(version.decode(), event.target, names)
        self._content_bytes += len(getattr(event, "data", b""))
        return event

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP/1.1; h11 can not answer any more in some states."""
        self._refuse(HTTPStatus.BAD_REQUEST, BadRequest.code, msg)

    def on_message_complete(self) -> None:
        """Note the end of a body that nobody waits for; httptools calls it, h11 has no such."""
        if self.cycle is not None and self.cycle.response_complete:
            self.cycle.more_body = False
        super().on_message_complete()  # type: ignore[misc]

    def shutdown(self) -> None:
        """End when the server stops; nobody looks at a refused connection any more."""
        if self._refused_at is None:
            super().shutdown()  # type: ignore[misc]
        else:
            self.transport.abort()

    def look(self, now: float, passed: float) -> None:
        """Cut the connection if its client is too slow; `passed` seconds ago it was looked at."""
        self._note_head(0)
        if self._refused_at is not None:
            if now - self._refused_at > _LINGER_SECONDS:
                self._cut()
            return
        self._look_at_reader(now)
        cycle = self.cycle
        if self.transport.is_closing():
            return
        if self._is_in_body:
            self._look_at_body(now, passed)
        elif cycle is None or cycle.response_complete:
            seconds = self.limits.head_seconds
            if self._head_since is not None and now - self._head_since > seconds:
                self._refuse_slow(f"the head was not complete within {seconds:g} s")

    def _look_at_body(self, now: float, passed: float) -> None:
        limits = self.limits
        if self.cycle.response_complete:
            self._drained_since = self._drained_since or now
            if now - self._drained_since > limits.head_seconds:
                self.transport.close()  # not reset: its client may not have read the answer yet
        elif self.flow.read_paused or self.cycle.waiting_for_100_continue:
            self._body_since += passed
        elif now - self._body_since > limits.body_seconds + (
            self._body_bytes / limits.body_bytes_per_second
        ):
            self._refuse_slow(
                f"the body came slower than {limits.body_bytes_per_second} bytes per second"
            )

    @property
    def _is_in_body(self) -> bool:
        return self.cycle is not None and self.cycle.more_body

    @property
    def _is_answering(self) -> bool:
        """Whether a request that was read to its end waits for its answer."""
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
            self._look_at_framing(len(data), self._content_bytes - content)
        if is_in_body and not self._is_in_body and self.cycle.response_complete:
            self._head_since = self.loop.time()  # the rest of an early answered request was read
        elif not is_in_body and self._head_since is not None:
            self._head_bytes += len(data)

    def _note_head(self, received: int) -> None:
        """Note that a head is complete; h11 may read one that was pipelined at any time."""
        if self.cycle is not self._seen:
            self._seen = self.cycle
            self._head_since, self._head_bytes, self._drained_since = None, 0, None
            self._body_since, self._body_bytes = self.loop.time(), received
            self._framing_bytes = 0

    def _look_at_framing(self, received: int, content: int) -> None:
        self._framing_bytes = max(self._framing_bytes + received - 2 * content, 0)
        if self._framing_bytes > self.limits.head_bytes and self._refused_at is None:
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                TooLarge.code,
                "the chunk headers and trailers of a body take at most "
                f"{self.limits.head_bytes} bytes more than its content",
            )

    def _look_at_reader(self, now: float) -> None:
        """Cut a client that takes nothing; while writing is paused nothing is added for it."""
        if not self.flow.write_paused and not self.transport.is_closing():
            self._stalled = None
            return
        left = self.transport.get_write_buffer_size()
        if self._stalled is None or left < self._stalled[0]:
            self._stalled = (left, now)
        elif now - self._stalled[1] > self.limits.stalled_seconds:
            self._cut()

    def _cut(self) -> None:
        """Reset the connection, so that the system keeps nothing of it for its client either."""
        with suppress(OSError):  # it may be gone already
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        self.transport.abort()

    def _refuse_slow(self, message: str) -> None:
        if self._head_since is not None and not self._head_bytes:
            self.transport.close()  # nothing was asked, so nothing is answered
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, BadRequest.code, message)

    def _refuse(self, status: HTTPStatus, code: str, message: str) -> None:
        """Answer in the form of all refusals, unless an answer has begun, and read no more."""
        if self._refused_at is not None:
            return
        self._refused_at, self._held = self.loop.time(), b""
        cycle = self.cycle
        is_free = cycle is None or cycle.response_complete
        if self._is_in_body and cycle.response_complete:
            is_free = False  # this request has its answer
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
