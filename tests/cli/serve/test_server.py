"""The server below the application: addresses, descriptors, accepting."""

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
import uvicorn
from anyio.lowlevel import checkpoint
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.app.runtime import Runtime
from penstock.cli.serve.connection import ConnectionLimit
from penstock.cli.serve.server import bind, shared_out, shortage
from penstock.core.errors import ConfigError
from penstock.core.limits import Limits
from penstock.server.application import create_application
from penstock.server.context import ADDRESS
from tests.kit.exhausted_process import no_files_left
from tests.kit.listener import bounded_server
from tests.kit.server import CHAT

ROOMY = ConnectionLimit(served=100, spare=10, highest=10_000)
PROTOCOLS = pytest.mark.parametrize("protocol", [H11Protocol, HttpToolsProtocol])


def with_a_mirror(runtime: Runtime) -> FastAPI:
    """Return an application that returns the client address."""
    app = create_application(runtime)

    async def mirror(request: Request) -> Response:
        seen = [request.client and request.client.host, request.scope[ADDRESS], request.url.scheme]
        return Response(json.dumps(seen))

    app.add_api_route("/mirror", mirror)
    return app


@PROTOCOLS
async def test_a_forwarded_address_from_a_client_is_ignored(
    protocol: type[asyncio.Protocol], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`trusted_proxies` is empty; no variable of uvicorn's changes that."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    async with (
        bounded_server(protocol, Limits(), ROOMY, application=with_a_mirror) as port,
        httpx2.AsyncClient() as client,
    ):
        headers = {"x-forwarded-for": "127.9.9.9", "x-forwarded-proto": "https"}
        answer = await client.get(f"http://127.0.0.1:{port}/mirror", headers=headers)
    assert answer.json() == ["127.0.0.1", "127.0.0.1", "http"]


@PROTOCOLS
async def test_a_request_to_change_the_protocol_is_an_ordinary_request(
    protocol: type[asyncio.Protocol],
) -> None:
    async with (
        bounded_server(protocol, Limits(), ROOMY) as port,
        httpx2.AsyncClient() as client,
    ):
        headers = {"connection": "upgrade", "upgrade": "websocket"}
        answer = await client.get(f"http://127.0.0.1:{port}/api/health", headers=headers)
    assert answer.status_code == 200


def test_a_taken_port_is_reported_with_a_next_step() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*--port"):
            bind("127.0.0.1", port)


SHARES = [
    (256, ConnectionLimit(served=84, spare=12, highest=224), 48),
    (1024, ConnectionLimit(served=420, spare=60, highest=992), 240),
    (65_536, ConnectionLimit(served=10_000, spare=4092, highest=65_504), 2000),
    (16, ConnectionLimit(served=1, spare=1, highest=4), 1),
]


@pytest.mark.parametrize(("descriptors", "room", "activations"), SHARES)
def test_half_of_the_remaining_descriptors_is_for_connections(
    descriptors: int, room: ConnectionLimit, activations: int
) -> None:
    result, limits = shared_out(descriptors, Limits())
    assert (result, limits.activations) == (room, activations)


def test_the_limits_of_the_settings_are_never_raised() -> None:
    room, limits = shared_out(65_536, Limits(connections=7, activations=3))
    assert (room.served, limits.activations) == (7, 3)


def test_a_low_limit_of_open_files_is_reported_to_the_operator() -> None:
    limits = Limits()
    assert shortage(*shared_out(8064, limits), limits) == ""
    assert shortage(*shared_out(256, limits), limits) == (
        "The limit of open files is low: this process serves 84 connections and runs 48 tasks at "
        "once. For 2000 tasks start it with `ulimit -n 8064` or more."
    )


PROGRAM = """
import resource
from penstock.cli.serve.server import room_of
from penstock.core.limits import Limits
for hard in (256, 64):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    room, limits = room_of(Limits())
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], room.served)
"""


@pytest.mark.slow("it starts Python, because the limit belongs to the process")
def test_the_limit_of_descriptors_is_raised_to_the_hard_limit() -> None:
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert highest >= 256
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == ["256 84", "64 1"]


FEW = ConnectionLimit(served=2, spare=2, highest=10_000)
CLIENTS = 60
BODY = json.dumps({"content": "hello"}).encode()
HEAD = (
    f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    f"content-length: {len(BODY)}\r\n\r\n"
).encode()
HEALTH = b"GET /api/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
Protocol = type[asyncio.Protocol]
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


async def burst(protocol: Protocol) -> tuple[list[bytes], bytes]:
    """Return the answers to a burst of clients, and to one after it."""
    async with (
        bounded_server(protocol, Limits(), FEW) as port,
        asyncio.timeout(10),
    ):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(FEW.served)]
        sent = [asked(port, HEAD, BODY) for _ in range(CLIENTS)]
        answers = await asyncio.gather(*sent)
        for _, writer in idle:
            writer.close()
        return answers, await asked(port, HEALTH)


@PROTOCOLS
@pytest.mark.parametrize("loop", LOOPS)
def test_each_client_of_a_burst_receives_its_refusal(loop: str, protocol: Protocol) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        answers, after = runner.run(burst(protocol))
    assert Counter(each[9:12] for each in answers) == {b"503": CLIENTS}
    assert all(b"\r\nretry-after: 1\r\n" in each for each in answers)
    assert b"200 OK" in after


async def held(protocol: Protocol) -> int:
    """Return how many descriptors the server takes for clients that send nothing."""
    async with bounded_server(protocol, Limits(), FEW) as port, asyncio.timeout(10):
        await asked(port, HEALTH)  # what the loop itself opens is open then
        before = descriptors()
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CLIENTS)]
        taken = descriptors() - before - CLIENTS
        for _, writer in idle:
            writer.close()
        while b"200 OK" not in await asked(port, HEALTH):
            pass
    return taken


@PROTOCOLS
@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_is_not_accepted_yet_takes_no_descriptor(
    loop: str, protocol: Protocol
) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        taken = runner.run(held(protocol))
    assert taken <= FEW.most


@PROTOCOLS
async def test_connections_get_503_when_work_took_the_descriptors(protocol: Protocol) -> None:
    """However few connections are open; health still answers."""
    agents = HEALTH.replace(b"/api/health", b"/api/agents")
    with socket.socket() as now:
        room = ConnectionLimit(served=100, spare=10, highest=now.fileno() + 20)
    async with bounded_server(protocol, Limits(), room) as port:
        taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(30)]
        answers = [await asked(port, each) for each in (agents, HEALTH)]
        for each in taken:
            os.close(each)
        answers.append(await asked(port, agents))
    assert [each[9:12] for each in answers] == [b"503", b"200", b"200"]


async def without_descriptors(protocol: Protocol) -> tuple[bytes | None, bytes]:
    """Return the answer to a client while no descriptor is left, and when there are some again."""
    meanwhile: bytes | None = None
    room = ConnectionLimit(served=10, spare=2, highest=10_000)
    loop = asyncio.get_running_loop()
    async with bounded_server(protocol, Limits(), room) as port, asyncio.timeout(10):
        with socket.create_connection(("127.0.0.1", port)) as client:  # not accepted meanwhile
            client.sendall(HEALTH)
            client.settimeout(0)
            with no_files_left(), suppress(TimeoutError):
                async with asyncio.timeout(0.15):
                    meanwhile = await loop.sock_recv(client, 1)
            async with asyncio.timeout(0.5):
                return meanwhile, await loop.sock_recv(client, 9999)


@PROTOCOLS
@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_waits_when_no_descriptor_is_left(loop: str, protocol: Protocol) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        meanwhile, after = runner.run(without_descriptors(protocol))
    assert meanwhile is None
    assert b"200 OK" in after
