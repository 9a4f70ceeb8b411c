"""Liveness and readiness."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx2

from penstock.core.limits import Limits
from penstock.server.application import create_application
from penstock.server.routes.health import CHECKS
from tests.kit.server import CHAT, HERE, in_memory, served


def failed(response: httpx2.Response) -> list[str]:
    """Return the checks that failed."""
    return [name for name, said in response.json()["checks"].items() if said == "failed"]


async def test_health_reports_the_version() -> None:
    async with served() as server:
        body = (await server.client.get("/api/health")).json()
        head = await server.client.head("/api/health")
    assert body["status"] == "ok"
    assert body["version"]
    assert head.status_code == 200


async def test_a_working_server_is_ready() -> None:
    async with served() as server:
        response = await server.client.get("/api/ready")
        assert response.json() == {"status": "ok", "checks": dict.fromkeys(CHECKS, "ok")}


async def test_only_admins_see_failed_checks() -> None:
    async with served() as server:
        await server.database_parts.keys.create("ann")
        response = await server.client.get("/api/ready")
        assert response.status_code == 401
        key = await server.database_parts.keys.create("bob")
        headers = {"authorization": f"Bearer {key}"}
        assert (await server.client.get("/api/ready", headers=headers)).json() == {"status": "ok"}


async def test_a_server_whose_database_is_locked_is_not_ready(tmp_path: Path) -> None:
    """Reads still work."""
    path = tmp_path / "one.db"
    limits = Limits(busy_seconds=0.01)
    async with served(url=f"sqlite:///{path}", limits=limits) as server:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            response = await server.client.get("/api/ready")
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")
            assert failed(response) == ["database"]
            text = "Another process holds the database. Stop it, or wait, and try again."
            assert response.json()["details"] == {"database": text}
            assert (await server.client.get(f"{CHAT}/conversations")).status_code == 200
        assert (await server.client.get("/api/ready")).status_code == 200


async def test_a_draining_server_is_not_ready() -> None:
    async with served() as server:
        server.app.state.lifecycle.drain()
        response = await server.client.get("/api/ready")
    assert response.status_code == 503
    assert failed(response) == ["launcher"]
    assert response.json()["details"] == {"launcher": "the server is stopping"}


async def test_a_server_without_a_launcher_is_not_ready() -> None:
    async with served() as house:
        await house.runtime.parts.engine.launcher.close()
        response = await house.client.get("/api/ready")
    assert (response.status_code, failed(response)) == (503, ["launcher"])


async def test_a_server_with_little_disk_space_is_not_ready(tmp_path: Path) -> None:
    """The path is not in the answer."""
    limits = Limits(free_bytes=2**62)
    async with served(url=f"sqlite:///{tmp_path / 'one.db'}", limits=limits) as house:
        response = await house.client.get("/api/ready")
    assert (response.status_code, failed(response)) == (503, ["disk"])
    assert "MiB are free, at least 4,398,046,511,104 are needed" in response.text
    assert str(tmp_path) not in response.text


async def test_a_server_that_is_not_open_yet_is_not_ready() -> None:
    transport = httpx2.ASGITransport(create_application(in_memory))
    async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
        response = await client.get("/api/ready")
        assert (response.status_code, failed(response)) == (503, list(CHECKS))
        assert (await client.get("/api/health")).status_code == 200


async def test_readiness_reports_missing_layers_of_confinement() -> None:
    """`"auto"`: goes on, `penstock doctor` and `/api/ready` say what is missing."""
    fields = {"namespaces": "Operation not permitted", "seccomp": ""}
    async with served(confinement=fields) as server:
        body = (await server.client.get("/api/ready")).json()
    layers = {"namespaces": "missing: Operation not permitted", "seccomp": "ok"}
    assert (body["status"], body["confinement"]) == ("ok", layers)
