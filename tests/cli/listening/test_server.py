"""The server below the application: what it tells the application of a request, and binds."""

import asyncio
import json
import socket

import httpx2
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.app.runtime import Runtime
from penstock.cli.listening.connection import ConnectionLimit
from penstock.cli.listening.server import bind
from penstock.core.errors import ConfigError
from penstock.core.limits import Limits
from penstock.server.application import create_application
from penstock.server.context import ADDRESS
from tests.kit.listener import bounded_server

ROOMY = ConnectionLimit(served=100, spare=10, highest=10_000)
PROTOCOLS = pytest.mark.parametrize("protocol", [H11Protocol, HttpToolsProtocol])


def with_a_mirror(runtime: Runtime) -> FastAPI:
    """Return an application that says where a request comes from."""
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
        headers = {"x-forwarded-for": "9.9.9.9", "x-forwarded-proto": "https"}
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


def test_a_port_that_is_taken_is_named_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*--port"):
            bind("127.0.0.1", port)
