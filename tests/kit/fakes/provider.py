"""A provider of models on a port of this machine: it checks requests and sends scripted replies.

A subclass knows one API: what it refuses, and how a reply looks in it. This class speaks HTTP,
keeps the bytes of every request, counts the part of a request that an earlier one began with, and
breaks replies in the ways of `Delivery` and `Fault`.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import digest
from typing import Any, Self

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class Thought:
    """A piece of reasoning; an empty one is hidden, but signed."""

    text: str = "hm yes"


@dataclass(frozen=True)
class Said:
    """Text of the reply."""

    text: str


@dataclass(frozen=True)
class Asked:
    """A call of a tool."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """Words of a model that refuses to answer."""

    text: str


Part = Thought | Said | Asked | Refused


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """How the bytes of a reply arrive."""

    single_bytes: bool = False
    crlf: bool = False
    pings: bool = False
    unknown_events: bool = False
    doubled: bool = False
    """Each event arrives twice."""
    cut_after: int | None = None
    """Close the connection after this many events."""
    error_after: int | None = None
    """Send an error as an event after this many events, though the status was 200."""
    hang_after: int | None = None
    """Send no more after this many events and keep the connection."""


@dataclass(frozen=True)
class Reply:
    """A reply of the model; `stop` is the provider's reason if it is not the usual one."""

    parts: tuple[Part, ...]
    stop: str = ""
    delivery: Delivery = Delivery()


@dataclass(frozen=True)
class Fault:
    """An answer that is an error."""

    status: int
    message: str = "Something went wrong."
    code: str = "server_error"
    headers: dict[str, str] = field(default_factory=dict)


class RefusedRequest(Exception):
    """The provider refuses a request."""

    def __init__(
        self, message: str, code: str = "invalid_request_error", status: int = 400
    ) -> None:
        super().__init__(message)
        self.fault = Fault(status, message, code)


def replying(*parts: Part, stop: str = "", **delivery: Any) -> Reply:
    """Return a reply of these parts. The rest are members of its Delivery."""
    return Reply(parts, stop, Delivery(**delivery))


def pieces(text: str) -> list[str]:
    """Return a text in pieces, as a model writes it."""
    return [text[at : at + 3] for at in range(0, len(text), 3)]


def sealed(*values: Any) -> str:
    """Return a signature of these values that only this module can make."""
    return digest(b"fake", json.dumps(values).encode(), "sha256").hex()


class FakeProvider(ABC):
    """One API. Serve it with `async with`."""

    ping = b": ping\n\n"
    unknown = b'event: quite_new\ndata: {"type":"quite_new","index":0}\n\n'

    def __init__(self, *answers: Reply | Fault) -> None:
        self.answers = list(answers)
        """What is still to be sent, one for each request that is not refused."""
        self.after_reply: Callable[[], None] = lambda: None
        """Called after each whole reply."""
        self.script: Callable[[dict[str, Any]], Reply | Fault] | None = None
        """What to answer to a request; None for the next of `answers`."""
        self.bodies: list[bytes] = []
        """All requests."""
        self.heads: list[str] = []
        self.refusals: list[str] = []
        """Why requests were refused."""
        self.url = ""
        self.hanging = asyncio.Event()
        """A reply has stopped in the middle."""
        self._prefixes: list[str] = []
        self._numbers: dict[str, int] = {}

    @abstractmethod
    def check(self, body: dict[str, Any], head: str) -> None:
        """Raise RefusedRequest for a request that the provider refuses."""

    @abstractmethod
    def events(self, reply: Reply, body: dict[str, Any]) -> Sequence[bytes]:
        """Return the events of a reply, each with its blank line."""

    def is_streamed(self, body: dict[str, Any]) -> bool:
        """Return whether a request asks for a stream."""
        return bool(body.get("stream"))

    def whole(self, reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
        """Return a reply that is not streamed; penstock never asks for one, other clients do."""
        raise NotImplementedError

    @abstractmethod
    def error(self, fault: Fault) -> dict[str, Any]:
        """Return an error in the form of the API."""

    @abstractmethod
    def error_event(self, fault: Fault) -> bytes:
        """Return an error inside a stream."""

    @property
    def requests(self) -> list[dict[str, Any]]:
        """All requests, as JSON."""
        return [json.loads(body) for body in self.bodies]

    def number(self, body: dict[str, Any]) -> int:
        """Return the number of a request. The same request has the same number again."""
        return self._numbers.setdefault(hash_of(body), len(self._numbers) + 1)

    def tokens(self, body: dict[str, Any]) -> tuple[int, int]:
        """Return the tokens of a request, and how many of them an earlier one began with."""
        text = self.prefix(body)
        common = max((_common(text, earlier) for earlier in self._prefixes), default=0)
        self._prefixes.append(text)
        return len(text) // CHARACTERS_PER_TOKEN, common // CHARACTERS_PER_TOKEN

    def prefix(self, body: dict[str, Any]) -> str:
        """Return what the provider caches, in its order."""
        return json.dumps([body.get(name) for name in ("tools", "system", "messages")])

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        """Listen on a free port."""
        listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            listening.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. Returns whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lengths = [line for line in head.lower().split("\r\n") if line.startswith("content-length")]
        raw = await reader.readexactly(int(lengths[0].partition(":")[2]))
        self.bodies.append(raw)
        self.heads.append(head)
        body = json.loads(raw)
        try:
            self.check(body, head)
            answer = self.script(body) if self.script else self.answers.pop(0)
        except RefusedRequest as refused:
            self.refusals.append(str(refused))
            answer = refused.fault
        if isinstance(answer, Fault):
            text = json.dumps(self.error(answer)).encode()
            _begin(writer, answer.status, "application/json", answer.headers)
            _chunk(writer, text)
            return await _end(writer)
        if not self.is_streamed(body):
            _begin(writer, 200, "application/json", {})
            _chunk(writer, json.dumps(self.whole(answer, body)).encode())
            return await _end(writer)
        return await self._stream(answer, self.events(answer, body), reader, writer)

    async def _stream(
        self,
        reply: Reply,
        events: Sequence[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        way = reply.delivery
        _begin(writer, 200, "text/event-stream", {})
        for number, event in enumerate(events):
            if number == way.cut_after:
                await writer.drain()
                return False
            if number == way.hang_after:
                await writer.drain()
                self.hanging.set()
                await reader.read()
                return False
            if number == way.error_after:
                _chunk(writer, self.error_event(Fault(200, "Overloaded", "server_error")))
                return await _end(writer)
            for block in self._blocks(event, way):
                _chunk(writer, block)
            await writer.drain()
        self.after_reply()
        return await _end(writer)

    def _blocks(self, event: bytes, way: Delivery) -> list[bytes]:
        around = [self.ping] * way.pings + [self.unknown] * way.unknown_events
        whole = b"".join([*around, event, *([event] if way.doubled else [])])
        if way.crlf:
            whole = whole.replace(b"\n", b"\r\n")
        return [whole[at : at + 1] for at in range(len(whole))] if way.single_bytes else [whole]


def check_strict(schema: Any) -> None:
    """Raise RefusedRequest for a schema that strict mode refuses."""
    if isinstance(schema, list):
        for each in schema:
            check_strict(each)
    if not isinstance(schema, dict):
        return
    if "properties" in schema:
        if schema.get("additionalProperties") is not False:
            raise RefusedRequest("'additionalProperties' is required to be false.")
        if sorted(schema.get("required", ())) != sorted(schema["properties"]):
            raise RefusedRequest("'required' has to include every key in properties.")
    if found := {"oneOf", "allOf", "not", "uniqueItems", "patternProperties"} & schema.keys():
        raise RefusedRequest(f"Invalid schema: {sorted(found)} is not permitted.")
    for inner in schema.values():
        check_strict(inner)


def hash_of(value: Any) -> str:
    """Return the SHA-256 of a value as JSON."""
    return sha256(json.dumps(value).encode()).hexdigest()


def event(payload: dict[str, Any]) -> bytes:
    """Return a payload as a server-sent event that is named by its type."""
    return f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n".encode()


def _common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _begin(writer: asyncio.StreamWriter, status: int, kind: str, headers: dict[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} Said", f"content-type: {kind}", "transfer-encoding: chunked"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())


def _chunk(writer: asyncio.StreamWriter, block: bytes) -> None:
    writer.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")


async def _end(writer: asyncio.StreamWriter) -> bool:
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True
