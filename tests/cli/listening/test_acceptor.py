"""Clients that do not block, more than there is room for: each reads its answer."""

import asyncio
import json
import socket
from collections import Counter
from pathlib import Path

import pytest
import uvicorn
from anyio.lowlevel import checkpoint
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.cli.listening.connection import ConnectionLimit
from penstock.core.limits import Limits
from tests.kit.listener import bounded_server
from tests.kit.resources import no_files_left
from tests.kit.server import CHAT

FEW = ConnectionLimit(served=2, spare=2, highest=10_000)
CLIENTS = 60
BODY = json.dumps({"content": "hello"}).encode()
HEAD = (
    f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    f"content-length: {len(BODY)}\r\n\r\n"
).encode()
HEALTH = b"GET /api/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
Protocol = type[asyncio.Protocol]
PROTOCOLS = pytest.mark.parametrize("protocol", [H11Protocol, HttpToolsProtocol])
LOOPS = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvicorn.Config("", loop="uvloop").get_loop_factory(),
}


async def asked(port: int, *parts: bytes) -> bytes:
    """Return the answer to a request that is sent in parts. Raises OSError where it is reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await checkpoint()
    answer = await reader.read()
    writer.close()
    return answer


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def burst(protocol: Protocol) -> None:
    async with (
        bounded_server(protocol, Limits(), FEW) as port,
        asyncio.timeout(10),
    ):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(FEW.served)]
        sent = [asked(port, HEAD, BODY) for _ in range(CLIENTS)]
        answers = await asyncio.gather(*sent)
        for _, writer in idle:
            writer.close()
        assert b"200 OK" in await asked(port, HEALTH)
    assert Counter(each[9:12] for each in answers) == {b"503": CLIENTS}
    assert all(b"\r\nretry-after: 1\r\n" in each for each in answers)


@PROTOCOLS
@pytest.mark.parametrize("loop", LOOPS)
def test_each_client_of_a_burst_reads_that_it_is_refused(loop: str, protocol: Protocol) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(burst(protocol))


async def held(protocol: Protocol) -> None:
    async with bounded_server(protocol, Limits(), FEW) as port, asyncio.timeout(10):
        await asked(port, HEALTH)  # what the loop itself opens is open then
        before = descriptors()
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CLIENTS)]
        taken = descriptors() - before - CLIENTS
        for _, writer in idle:
            writer.close()
        while b"200 OK" not in await asked(port, HEALTH):
            pass
    assert taken <= FEW.most


@PROTOCOLS
@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_is_not_accepted_yet_takes_no_descriptor(
    loop: str, protocol: Protocol
) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(held(protocol))


async def without_descriptors(protocol: Protocol) -> None:
    room = ConnectionLimit(served=10, spare=2, highest=10_000)
    loop = asyncio.get_running_loop()
    async with bounded_server(protocol, Limits(), room) as port, asyncio.timeout(10):
        with socket.create_connection(("127.0.0.1", port)) as client:  # not accepted meanwhile
            client.sendall(HEALTH)
            client.settimeout(0)
            with no_files_left(), pytest.raises(TimeoutError):
                async with asyncio.timeout(0.15):
                    await loop.sock_recv(client, 1)
            async with asyncio.timeout(0.5):
                assert b"200 OK" in await loop.sock_recv(client, 9999)


@PROTOCOLS
@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_comes_when_no_descriptor_is_left_waits_for_one(
    loop: str, protocol: Protocol
) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(without_descriptors(protocol))
