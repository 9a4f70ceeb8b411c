"""Bounds on clients before their key is checked: sizes and times."""

import asyncio
import json
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from fastapi import FastAPI
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.app.runtime import Runtime
from penstock.cli.serve.connection import ConnectionLimit
from penstock.core.limits import KIB, MIB, Limits
from penstock.server.application import create_application
from penstock.testing.clock import settle
from tests.kit.listener import bounded_server
from tests.kit.server import CHAT

SLOW = Limits(head_seconds=0.2, body_seconds=0.2)
ROOMY = ConnectionLimit(served=1000, spare=10, highest=10_000)
ONE = ConnectionLimit(served=1, spare=2, highest=10_000)
HEALTH = b"GET /api/health HTTP/1.1\r\nhost: localhost\r\n\r\n"
PROTOCOLS = pytest.mark.parametrize("protocol", [H11Protocol, HttpToolsProtocol])
Protocol = type[asyncio.Protocol]


class Client:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self) -> bytes:
        """Return all that comes until the server closes."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    async def head(self) -> bytes:
        """Return the next head."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def answer(self) -> tuple[int, str]:
        """Return the status and the body of the next answer, which has a Content-Length."""
        head = await self.head()
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length"))
        body = await self.reader.readexactly(int(length.split(b":")[1]))
        return int(head.split()[1]), body.decode()


@asynccontextmanager
async def knocked(port: int) -> AsyncIterator[Client]:
    """Connect."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


def status_of(answer: bytes) -> int:
    return int(answer.split()[1])


def post(body: bytes) -> bytes:
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


@PROTOCOLS
async def test_a_too_large_head_is_refused_early(protocol: Protocol) -> None:
    """It does not matter whether it is one header, many, or a long path."""
    start = b"GET / HTTP/1.1\r\nhost: localhost\r\n"
    many = start + b"".join(b"x%d: a\r\n" % n for n in range(20_000))
    heads = [start + b"x: " + b"a" * 300 * KIB, many, b"GET /" + b"a" * 300 * KIB]
    async with bounded_server(protocol, Limits(), ROOMY) as port:
        for head in heads:
            async with knocked(port) as client:
                client.writer.write(head)
                answer = await client.rest()
            assert (status_of(answer), b'"code":"TOO_LARGE"' in answer) == (431, True)


@PROTOCOLS
async def test_a_huge_head_takes_hardly_any_memory(protocol: Protocol) -> None:
    sent = 0
    async with bounded_server(protocol, Limits(), ROOMY) as port, knocked(port) as client:
        await client.send(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ")
        answered = asyncio.create_task(client.head())
        while sent < 60 * MIB and not answered.done():
            await client.send(b"a" * 64 * KIB)
            sent += 64 * KIB
        assert status_of(await answered) == 431
    assert sent < 20 * MIB


@PROTOCOLS
@pytest.mark.parametrize("size", [1, 60 * KIB])
async def test_a_head_within_the_bound_is_read(protocol: Protocol, size: int) -> None:
    large = HEALTH.replace(b"\r\n\r\n", b"\r\nx: " + b"a" * size + b"\r\n\r\n")
    async with bounded_server(protocol, Limits(), ROOMY) as port, knocked(port) as client:
        for _ in range(3):  # each request has the whole bound
            await client.send(large)
            assert (await client.answer())[0] == 200


@PROTOCOLS
async def test_a_large_body_right_after_its_head_is_read(protocol: Protocol) -> None:
    body = json.dumps({"content": "a" * 90_000}).encode()
    async with bounded_server(protocol, Limits(), ROOMY) as port, knocked(port) as client:
        await client.send(post(body))
        assert (await client.answer())[0] == 200


HALF = [
    (b"", 0),
    (b"GET /api/health HTTP/1.1\r\nhost: loc", 408),
    (b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
     b"content-length: 100\r\n\r\n{" % CHAT.encode(), 408),
    (b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
     b"transfer-encoding: chunked\r\n\r\n5\r\n{" % CHAT.encode(), 408),
    (b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{", 404),
]  # fmt: skip


@PROTOCOLS
@pytest.mark.parametrize(("half", "status"), HALF)
async def test_a_partial_request_is_cut_in_time(
    protocol: Protocol, half: bytes, status: int
) -> None:
    async with bounded_server(protocol, SLOW, ROOMY) as port, knocked(port) as client:
        await client.send(half)
        async with asyncio.timeout(5):
            answer = await client.rest()
    assert (status_of(answer) if answer else 0) == status


@PROTOCOLS
async def test_a_trickle_does_not_hold_a_connection(protocol: Protocol) -> None:
    """A byte now and then does not extend the time of a head or a body."""
    half = [b"\r\n", HEALTH + b"\r\n", HEALTH + HALF[1][0], *(each for each, _ in HALF[1:])]

    async def trickle(port: int, started: bytes) -> bytes:
        async with knocked(port) as client:
            await client.send(started)
            ended = asyncio.create_task(client.rest())
            while not ended.done():
                client.writer.write(b"a")
                await asyncio.wait([ended], timeout=0.02)
            return await ended

    async with bounded_server(protocol, SLOW, ROOMY) as port, asyncio.timeout(5):
        answers = await asyncio.gather(*[trickle(port, each) for each in half])
    assert {status_of(each) for each in answers if each} <= {200, 400, 404, 408}


@PROTOCOLS
async def test_hundreds_of_partial_requests_leave_room_for_others(protocol: Protocol) -> None:
    patient = replace(SLOW, head_seconds=0.5)
    async with bounded_server(protocol, patient, ROOMY) as port:
        half = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        for _, writer in half:
            writer.write(b"GET /api/health HTTP/1.1\r\nhost")
        async with knocked(port) as client:
            await client.send(HEALTH)
            assert (await client.answer())[0] == 200
        async with asyncio.timeout(5):
            answers = await asyncio.gather(*[reader.read() for reader, _ in half])
        for _, writer in half:
            writer.close()
    assert {status_of(each) for each in answers} == {408}


@PROTOCOLS
async def test_a_client_that_waits_or_reads_a_stream_stays_connected(protocol: Protocol) -> None:
    """A stream may stay open longer than the bounds on requests."""
    limits = replace(SLOW, ping_seconds=0.1, shutdown_seconds=0.1)
    body = json.dumps({"content": "ask", "stream": True}).encode()
    async with bounded_server(protocol, limits, ROOMY) as port, knocked(port) as client:
        await client.send(post(body))
        assert status_of(await client.head()) == 200
        async with asyncio.timeout(5):
            for _ in range(4):
                await client.reader.readuntil(b": ping")


CHUNKED = b"POST %s HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n"
JSON = b"content-type: application/json\r\n\r\n"
FRAMING = {
    "trailers": (b"0\r\n", b"X-1: a\r\n"),
    "one trailer": (b"0\r\nX: ", b"a"),
    "one chunk extension": (b"1;", b"a"),
    "chunk extensions": (b"", b"1;aaaaaaaaaa\r\na\r\n"),
    "chunks of one byte": (b"", b"1\r\n \r\n"),
}


@PROTOCOLS
@pytest.mark.parametrize("path", [CHAT, "/api/health"])
@pytest.mark.parametrize("framing", FRAMING)
async def test_the_framing_of_a_body_is_bounded(
    protocol: Protocol, framing: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the request has its answer already or waits for the rest of its body."""
    started, repeated = FRAMING[framing]
    sent, block = 0, repeated * (16 * KIB // len(repeated))
    async with bounded_server(protocol, Limits(), ROOMY) as port, knocked(port) as client:
        await client.send(CHUNKED % path.encode() + JSON + started)
        ended = asyncio.create_task(client.rest())
        with suppress(ConnectionError):
            while sent < 60 * MIB and not ended.done():
                await client.send(block)
                sent += len(block)
        answer = await ended
    assert sent < 20 * MIB
    assert answer.count(b"HTTP/1.1 ") <= 1
    if path == CHAT and answer:
        assert status_of(answer) in {400, 413}
    assert "ERROR" not in capsys.readouterr().err


@PROTOCOLS
@pytest.mark.parametrize("size", [4, 1000, 100_000])
async def test_a_body_in_chunks_with_trailers_is_read(protocol: Protocol, size: int) -> None:
    """The connection continues with the next request."""
    body = json.dumps({"content": "a" * min(90_000, size * 5000)}).encode()
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in parts)
    async with bounded_server(protocol, Limits(), ROOMY) as port, knocked(port) as client:
        for _ in range(2):
            await client.send(CHUNKED % CHAT.encode() + JSON + chunks + b"0\r\nx-sum: 1\r\n\r\n")
            assert (await client.answer())[0] == 200


@PROTOCOLS
@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\n\n"])
async def test_a_request_that_is_not_http_1_is_refused_with_a_json_error(
    protocol: Protocol, sent: bytes
) -> None:
    async with bounded_server(protocol, Limits(), ROOMY) as port, knocked(port) as client:
        await client.send(sent)
        answer = await client.rest()
    assert status_of(answer) == 400
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "BAD_REQUEST"


def with_a_large_answer(runtime: Runtime) -> FastAPI:
    app = create_application(runtime)
    app.add_api_route("/large", lambda: Response(bytes(32 * MIB)), response_class=Response)
    return app


@PROTOCOLS
async def test_a_client_that_reads_no_answer_is_disconnected(protocol: Protocol) -> None:
    limits = replace(SLOW, stalled_seconds=0.2)
    async with (
        bounded_server(protocol, limits, ROOMY, application=with_a_large_answer) as port,
        knocked(port) as client,
    ):
        await client.send(HEALTH.replace(b"/api/health", b"/large"))
        assert status_of(await client.head()) == 200
        await settle()  # it has read what it reads ahead
        cut = select.poll()
        cut.register(client.writer.get_extra_info("socket"), select.POLLRDHUP)
        assert await asyncio.to_thread(cut.poll, 5000)


@PROTOCOLS
async def test_an_interrupted_body_is_not_a_server_error(
    protocol: Protocol, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise each client that leaves would log a traceback."""
    half = next(each for each, status in HALF if each.startswith(b"POST") and status == 408)
    async with bounded_server(protocol, SLOW, ROOMY) as port:
        async with knocked(port) as gone:
            await gone.send(half)
            await settle()
        async with knocked(port) as slow:
            await slow.send(half)
            assert status_of(await slow.rest()) == 408
    assert not capsys.readouterr().err


@PROTOCOLS
async def test_a_connection_over_the_limit_is_answered(protocol: Protocol) -> None:
    """With 503 and Retry-After; health still answers."""
    ask = HEALTH.replace(b"/api/health", b"/api/agents")
    async with (
        bounded_server(protocol, Limits(), ONE) as port,
        knocked(port) as first,
        knocked(port) as second,
        knocked(port) as third,
    ):
        await first.send(ask)
        assert (await first.answer())[0] == 200
        await second.send(ask)
        refused = await second.rest()
        assert status_of(refused) == 503
        assert b"\r\nretry-after: 1\r\n" in refused
        assert b'"code":"NOT_READY"' in refused
        await third.send(HEALTH)
        assert status_of(await third.rest()) == 200
        async with knocked(port) as fourth, knocked(port) as fifth, knocked(port) as sixth:
            async with knocked(port) as seventh:  # not even a spare one
                await seventh.send(HEALTH)
                assert status_of(await seventh.rest()) == 200
            assert status_of(await sixth.rest()) == 503
            await fourth.send(HEALTH)
            assert status_of(await fourth.rest()) == 200
            await fifth.send(ask)
            assert status_of(await fifth.rest()) == 503
        await first.send(ask)
        assert (await first.answer())[0] == 200


BOTH = [b"content-length: 4\r\n", b"transfer-encoding: chunked\r\n"]
UNCLEAR = [
    (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    (505, b"GET / HTTP/2.0\r\n\r\n"),
    (505, b"GET / HTTP/0.9\r\n\r\n"),
    *((400, HEALTH[:-2] + b"".join(each) + b"\r\n0\r\n\r\n") for each in (BOTH, BOTH[::-1])),
    (400, HEALTH[:-2] + b"host: evil.com\r\n\r\n"),
    (400, HEALTH.replace(b"/api", b"http://evil.com/api")),
]


@PROTOCOLS
@pytest.mark.parametrize(("status", "sent"), UNCLEAR)
async def test_bytes_after_a_refused_head_are_not_read_as_a_request(
    protocol: Protocol, status: int, sent: bytes
) -> None:
    """Another version of HTTP, or two lengths, of which a proxy in front may believe the other."""
    async with bounded_server(protocol, Limits(), ROOMY) as port, knocked(port) as client:
        await client.send(sent + HEALTH)
        answer = await client.rest()
    assert status_of(answer) in {status, 400}  # llhttp itself knows the preface of HTTP/2
    assert answer.count(b"HTTP/1.1 ") == 1


class Counted(HttpToolsProtocol):
    """Notes how many requests were parsed ahead."""

    most = 0

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        Counted.most = max(Counted.most, len(self.pipeline))


@pytest.mark.parametrize("protocol", [H11Protocol, Counted])
async def test_pipelined_requests_wait_as_bytes(protocol: Protocol) -> None:
    """All are answered. Parsed ahead they would take a hundred times their bytes."""
    large = post(json.dumps({"content": "a" * 90_000}).encode())
    async with bounded_server(protocol, Limits(), ROOMY) as port, knocked(port) as client:
        client.writer.write(HEALTH * 1500 + large * 3 + HEALTH)
        answers = [await client.answer() for _ in range(1504)]
    assert {status for status, _ in answers} == {200}
    assert Counted.most < 100


@PROTOCOLS
@pytest.mark.parametrize("upgrade", [b"h2c", b"websocket"])
async def test_an_offer_of_another_protocol_is_answered_in_http_1(
    protocol: Protocol, upgrade: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    offer = HEALTH[:-2] + b"connection: Upgrade\r\nupgrade: " + upgrade + b"\r\n\r\n"
    async with bounded_server(protocol, Limits(), ROOMY) as port, knocked(port) as client:
        for _ in range(2):
            await client.send(offer)
            assert (await client.answer())[0] == 200
    assert not capsys.readouterr().err
