"""Whether the server lives, and whether it can serve."""

import httpx2

from penstock.server.application import create_application
from tests.serving import HERE, in_memory, served


async def test_a_server_that_lives_says_its_version() -> None:
    async with served() as house:
        body = (await house.client.get("/api/health")).json()
        head = await house.client.head("/api/health")
    assert body["status"] == "ok"
    assert body["version"]
    assert head.status_code == 200


async def test_a_server_that_can_serve() -> None:
    async with served() as house:
        response = await house.client.get("/api/ready")
        assert response.json() == {"status": "ok", "checks": {"database": "ok", "launcher": "ok"}}


async def test_what_is_wrong_is_for_those_who_may_know() -> None:
    async with served() as house:
        await house.archive.keys.create("ann")
        response = await house.client.get("/api/ready")
        assert response.status_code == 401
        key = await house.archive.keys.create("bob")
        headers = {"authorization": f"Bearer {key}"}
        assert (await house.client.get("/api/ready", headers=headers)).json() == {"status": "ok"}


async def test_a_server_that_is_about_to_stop() -> None:
    async with served() as house:
        house.app.state.doorstep.drain()
        response = await house.client.get("/api/ready")
    assert response.status_code == 503
    assert response.json()["checks"] == {"database": "ok", "launcher": "failed"}


async def test_a_server_that_is_not_open_yet() -> None:
    transport = httpx2.ASGITransport(create_application(in_memory))
    async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
        response = await client.get("/api/ready")
        assert (response.status_code, response.json()["status"]) == (503, "failed")
        assert (await client.get("/api/health")).status_code == 200
