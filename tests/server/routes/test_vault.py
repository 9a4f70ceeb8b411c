"""Secrets over HTTP: write-only."""

import errno
import logging
import os
from pathlib import Path

import httpx2
import pytest

from penstock.core.scopes import Scope, ScopeKind
from penstock.program.opening import open as open_project
from penstock.server.application import create_application
from tests.kit.server import HERE, InMemoryServer, served

TEAM = "/api/vault/shared/team"
MINE = "/api/vault/profile/me"
SECRET = "s3same-open"  # noqa: S105  what must not come out


async def bearer(server: InMemoryServer, name: str, *permissions: str) -> dict[str, str]:
    key = await server.database_parts.keys.create(name, permissions=permissions)
    return {"authorization": f"Bearer {key}"}


async def put(server: InMemoryServer, path: str, value: object = SECRET, **more: object) -> int:
    headers = more.get("headers")
    response: httpx2.Response = await server.client.put(
        path,
        json={"value": value},
        headers=headers,  # type: ignore[arg-type]
    )
    assert str(value) not in response.text
    return response.status_code


async def test_a_secret_can_be_set_and_never_read() -> None:
    """V10: "No answer ever contains a value"."""
    async with served() as server:
        assert await put(server, f"{TEAM}/b.token") == 204
        assert await put(server, f"{TEAM}/a.token") == 204
        assert (
            await server.database_parts.vault.get(Scope(ScopeKind.SHARED, "team"), "a.token")
            == SECRET
        )
        listed = await server.client.get(TEAM)
        assert SECRET not in listed.text
        assert [each["key"] for each in listed.json()["secrets"]] == ["a.token", "b.token"]
        assert set(listed.json()["secrets"][0]) == {"key", "updatedAt"}
        assert listed.json()["meta"] == {"total": 2, "limit": 50, "offset": 0}
        gone = await server.client.delete(f"{TEAM}/a.token")
        assert (gone.status_code, gone.content) == (204, b"")
        assert (await server.client.delete(f"{TEAM}/a.token")).status_code == 404


async def test_a_profile_sets_its_own_secrets() -> None:
    """V10: "A profile may write its own (`me`)"."""
    async with served() as server:
        ann = await bearer(server, "ann", "read", "chat")
        bob = await bearer(server, "bob", "read", "chat")
        assert await put(server, f"{MINE}/token", headers=ann) == 204
        profile = (await server.client.get("/api/vault/profile/ann", headers=ann)).json()
        assert [each["key"] for each in profile["secrets"]] == ["token"]
        for path in ("/api/vault/profile/ann/token", "/api/vault/profile/ann"):
            refused = await server.client.request(
                "DELETE" if path.endswith("token") else "GET", path, headers=bob
            )
            assert refused.status_code == 404
        assert await put(server, "/api/vault/profile/ann/token", headers=bob) == 404


async def test_shared_secrets_need_a_permission() -> None:
    """V10: "shared needs the permission `vault.write`"."""
    async with served() as server:
        ann = await bearer(server, "ann", "read", "chat")
        ops = await bearer(server, "ops", "read", "vault.write")
        assert await put(server, f"{TEAM}/token", headers=ann) == 403
        assert (await server.client.get(TEAM, headers=ann)).status_code == 403
        assert await put(server, f"{TEAM}/token", headers=ops) == 204
        assert await put(server, f"{MINE}/token", headers=ops) == 403


REFUSED = [
    ("/api/vault/session/x/token", {"value": "long"}, 400),
    (f"{TEAM}/a b", {"value": "long"}, 422),
    (f"{TEAM}/token", {"value": ""}, 422),
    (f"{TEAM}/token", {"value": 5}, 422),
    (f"{TEAM}/token", {}, 422),
    (f"{TEAM}/token", {"value": "x" * 70_000}, 422),
]


@pytest.mark.parametrize(("path", "body", "status"), REFUSED)
async def test_a_value_that_cannot_be_stored_is_refused(
    path: str, body: object, status: int
) -> None:
    async with served() as server:
        response = await server.client.put(path, json=body)
        assert response.status_code == status, response.text
        assert await server.database_parts.vault.notes() == []


async def test_setting_a_short_secret_returns_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as server:
        with caplog.at_level(logging.WARNING):
            short = await server.client.put(f"{TEAM}/pin", json={"value": "123"})
            long = await server.client.put(f"{TEAM}/pin", json={"value": "1234"})
    assert (short.status_code, "x-warning" in long.headers) == (204, False)
    assert short.headers["x-warning"].startswith("a secret under 4 bytes cannot be redacted")
    assert "pin of shared:team: a secret under 4 bytes" in caplog.text
    assert "123" not in caplog.text


@pytest.mark.slow("opens a store")
async def test_a_full_disk_is_not_the_error_of_a_request_to_set_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of all secrets is created on first use. A full disk is 503, as elsewhere."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with open_project(tmp_path, settings={"synchronous": "NORMAL"}) as runtime:
        transport = httpx2.ASGITransport(create_application(runtime))
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", full)
                wrong = await client.put(f"{MINE}/token", json={"value": SECRET})
            right = await client.put(f"{MINE}/token", json={"value": SECRET})
    error = wrong.json()["error"]
    assert (wrong.status_code, error["code"], right.status_code) == (503, "NOT_READY", 204)
    assert "No space is left on the disk" in error["message"]
