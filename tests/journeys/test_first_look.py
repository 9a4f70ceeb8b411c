"""No request is admitted without a key until a query has proven that no key exists."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from penstock.core.limits import Limits
from penstock.server.application import create_application
from penstock.server.auth import HEALTH
from penstock.testing.clock import FakeClock, settle
from tests.kit.server import HERE, database_at, hanging, in_memory, served
from tests.kit.tools import Act

AGENTS = "/api/agents"
STEP = "/api/direct-calls/step"


@pytest.mark.parametrize("has_key", [True, False])
async def test_keyless_requests_wait_for_the_first_query(tmp_path: Path, has_key: bool) -> None:
    """A slow first query admits no request; all concurrent requests share it."""
    step = Act("step", direct_call=True)
    async with database_at(tmp_path) as database, served(url=database, tools=[step]) as server:
        if has_key:
            await server.database_parts.keys.create("ann")
        async with hanging(database):
            posts = [server.client.post(STEP, json={}) for _ in range(10)]
            knocking = asyncio.gather(*posts)
            await settle()
            assert not knocking.done()
            assert not step.runs
        statuses = {each.status_code for each in await knocking}
    assert statuses == ({401} if has_key else {200})
    assert len(step.runs) == (0 if has_key else 10)


async def test_a_database_that_hangs_is_503_for_all_but_health(tmp_path: Path) -> None:
    """`/api/health` answers from memory; a key does not help, because it cannot be looked up."""
    limits = Limits(key_look_seconds=0.02)
    async with (
        database_at(tmp_path) as database,
        served(url=database, limits=limits) as server,
        hanging(database),
    ):
        for path in (AGENTS, "/", "/login", "/openapi.json", "/api/ready", "/api/nope"):
            response = await server.client.get(path)
            assert response.status_code == 503, path
            assert response.json()["error"]["code"] == "NOT_READY"
            assert response.headers["retry-after"] == "1"
        async with asyncio.timeout(0.5):
            assert (await server.client.get(HEALTH)).status_code == 200
            key = {"authorization": "Bearer pk_x"}
            assert (await server.client.get(HEALTH, headers=key)).status_code == 200


async def test_a_key_lookup_that_times_out_returns_503(tmp_path: Path) -> None:
    async with (
        database_at(tmp_path) as database,
        served(url=database, limits=Limits(key_look_seconds=0.2)) as server,
    ):
        key = await server.database_parts.keys.create("ann")
        shown = [{"authorization": f"Bearer {key}"}, {"cookie": "penstock_session=x"}]
        assert (await server.client.get(AGENTS, headers=shown[0])).status_code == 200
        async with hanging(database):
            for headers in shown:
                response = await server.client.get(AGENTS, headers=headers)
                assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert (await server.client.get(AGENTS, headers=shown[0])).status_code == 200


async def test_a_database_that_is_down_is_503_for_all_but_health(tmp_path: Path) -> None:
    """Whether the last look found no key or none was made: no look is not "no keys"."""
    clock = FakeClock()
    async with database_at(tmp_path) as database, served(url=database, clock=clock) as server:
        assert (await server.client.get(AGENTS)).status_code == 200
        await database.close()
        clock.advance(1)
        for _ in range(2):
            response = await server.client.get("/")
            assert response.status_code == 503
            assert response.headers["retry-after"] == "1"
        assert (await server.client.get(HEALTH)).status_code == 200


@pytest.mark.parametrize("authorization", ["", "Bearer pk_x"])
async def test_readiness_answers_in_time_while_the_database_hangs(
    tmp_path: Path, authorization: str
) -> None:
    """Who asks cannot be known then, so no reason is named."""
    limits = Limits(ready_seconds=0.05)
    async with (
        database_at(tmp_path, ready_seconds=limits.ready_seconds) as database,
        served(url=database, limits=limits) as server,
    ):
        if authorization:
            await server.database_parts.keys.create("ann")
        async with hanging(database), asyncio.timeout(4):
            headers = {"authorization": authorization} if authorization else {}
            response = await server.client.get("/api/ready", headers=headers)
    assert (response.status_code, response.json()) == (503, {"status": "failed"})


async def test_a_project_that_is_not_open_yet_serves_only_health() -> None:
    transport = httpx2.ASGITransport(create_application(in_memory))
    async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
        statuses = [(await client.get(each)).status_code for each in (AGENTS, "/", HEALTH)]
        refused = await client.post(STEP, json={})
    assert statuses == [503, 503, 200]
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


async def test_a_key_of_another_process_takes_effect_within_a_second(tmp_path: Path) -> None:
    clock = FakeClock()
    async with database_at(tmp_path) as database, served(url=database, clock=clock) as server:
        assert (await server.client.get(AGENTS)).status_code == 200
        async with database_at(tmp_path) as other, in_memory(url=other) as elsewhere:
            assert elsewhere.parts.storage.database_parts is not None
            await elsewhere.parts.storage.database_parts.keys.create("ann")
        clock.advance(1)
        assert (await server.client.get(AGENTS)).status_code == 401


async def test_requests_need_a_key_even_after_the_last_one_is_revoked(tmp_path: Path) -> None:
    """In the process that saw it, and in one that starts afterwards."""
    clock = FakeClock()
    async with database_at(tmp_path) as database, served(url=database, clock=clock) as server:
        await server.database_parts.keys.create("ann")
        assert (await server.client.get(AGENTS)).status_code == 401
        await server.database_parts.keys.revoke("ann")
        clock.advance(5)
        assert (await server.client.get(AGENTS)).status_code == 401
    async with database_at(tmp_path) as database, served(url=database) as server:
        assert (await server.client.get(AGENTS)).status_code == 401
