"""A server without keys behind a reverse proxy of the same machine."""

from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from penstock.server.application import create_application
from penstock.server.mounting import mount
from tests.kit.server import HERE, in_memory, served

AGENTS = "/api/agents"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (("x-forwarded-for", "203.0.113.9"), 401),
        (("x-forwarded-for", "127.0.0.1, 203.0.113.9"), 401),
        (("x-forwarded-for", "unknown"), 401),
        (("x-real-ip", "203.0.113.9"), 401),
        (("forwarded", "for=203.0.113.9;host=localhost"), 401),
        (("x-forwarded-for", "127.0.0.1, ::1, ::ffff:127.0.0.1"), 200),
        (("x-forwarded-for", "::ffff:203.0.113.9"), 401),
        (("x-forwarded-for", "127.0.0.1:80"), 401),
        (("x-forwarded-for", ""), 401),
        (("X-FORWARDED-FOR", " , "), 401),
        (("Forwarded", "for=127.0.0.1"), 401),
        (("cf-connecting-ip", "203.0.113.9"), 401),
        (("true-client-ip", "203.0.113.9"), 401),
        (("x-forwarded-host", "agents.example"), 401),
        (("x-forwarded-host", "localhost"), 401),
        (("x-forwarded-proto", "https"), 401),
        (("via", "1.1 proxy"), 401),
    ],
)
async def test_a_request_that_a_local_proxy_forwards_needs_a_key(
    header: tuple[str, str], status: int
) -> None:
    """A proxy on this machine is a loopback peer, and many send its own name as the Host."""
    async with served() as server:
        assert (await server.client.get(AGENTS, headers=[header])).status_code == status


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (("x-forwarded-for", "203.0.113.9"), 401),
        (("x-real-ip", "203.0.113.9"), 401),
        (("x-forwarded-host", "agents.example"), 401),
        (("x-forwarded-host", "localhost, agents.example"), 401),
        (("x-forwarded-server", "agents.example"), 401),
        (("x-forwarded-host", "localhost:5173"), 200),
        (("x-forwarded-proto", "http"), 200),
        (("via", "1.1 proxy"), 200),
    ],
)
async def test_a_proxy_for_programs_of_this_machine_needs_no_key(
    more: tuple[str, str], status: int
) -> None:
    """As a development server sends it; each of its headers must agree."""
    headers = [("x-forwarded-for", "127.0.0.1"), more]
    async with served() as server:
        assert (await server.client.get(AGENTS, headers=headers)).status_code == status


async def test_an_address_that_a_header_has_replaced_needs_a_key() -> None:
    """Such a server trusts every client: the address may be the client's own invention."""
    async with in_memory() as runtime:
        served_app: Any = create_application(runtime)
        app: Any = ProxyHeadersMiddleware(served_app, trusted_hosts="*")
        transport = httpx2.ASGITransport(app, client=("203.0.113.9", 5000))
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            forged = await client.get(AGENTS, headers={"x-forwarded-for": "127.0.0.1"})
    assert forged.status_code == 401


@pytest.mark.parametrize(("client", "status"), [("127.0.0.1", 200), ("203.0.113.9", 401)])
async def test_a_mounted_runtime_reads_the_headers_of_proxies(client: str, status: int) -> None:
    async with in_memory() as runtime:
        mount(app := FastAPI(), runtime, "/desk")
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as http:
            answer = await http.get(f"/desk{AGENTS}", headers={"x-forwarded-for": client})
    assert answer.status_code == status
