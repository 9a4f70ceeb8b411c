"""Webhooks over HTTP: what operators see of them, and what they can do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

import penstock
from penstock.core.clock import Moment
from penstock.models.scripted import ScriptedModel, say
from penstock.server.application import create_application
from penstock.store.logs.outbox import Outbox
from tests.kit.server import HERE

TOML = """
[[webhooks]]
url = "https://hooks.test/in?token=s3cret"
events = ["task.ended"]
secret = "hook"
kinds = ["message"]
"""


class Operator:
    """A client, and the outbox behind it."""

    def __init__(self, client: httpx2.AsyncClient, outbox: Outbox, task_id: str) -> None:
        self.client, self.outbox, self.task_id = client, outbox, task_id

    async def get(self, path: str = "") -> Any:
        answer = await self.client.get(f"/api/webhooks{path}")
        assert "s3cret" not in answer.text
        return answer.json()

    async def post(self, path: str) -> httpx2.Response:
        return await self.client.post(f"/api/webhooks{path}")


@asynccontextmanager
async def operator(folder: Path) -> AsyncIterator[Operator]:
    """Serve a project with one webhook and one task that has ended; nothing is sent."""
    (folder / "penstock.toml").write_text(TOML)
    model = ScriptedModel({"": say("Hello.")})
    async with penstock.open(folder, model=model, resume=False) as runtime:
        reply = await runtime.chat("Hi")
        parts = runtime.parts.storage.database_parts
        assert parts is not None
        transport = httpx2.ASGITransport(create_application(runtime))
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            yield Operator(client, parts.outbox, reply.task_id)


async def test_operators_see_receivers_and_deliveries_without_secrets(tmp_path: Path) -> None:
    async with operator(tmp_path) as here:
        (webhook,) = (await here.get())["webhooks"]
        assert webhook == {
            "id": webhook["id"],
            "origin": "https://hooks.test",
            "events": ["task.ended"],
            "agents": ["*"],
            "kinds": ["message"],
            "content": False,
            "status": "active",
        }
        found = await here.get("/deliveries?status=pending")
        assert found["meta"]["total"] == 1
        (delivery,) = found["deliveries"]
        assert (delivery["taskId"], delivery["webhookId"]) == (here.task_id, webhook["id"])
        assert (delivery["type"], delivery["attempts"]) == ("task.ended", 0)
        for query in ("status=dead", "webhookId=wh_other"):
            assert (await here.get(f"/deliveries?{query}"))["deliveries"] == []


async def test_a_paused_webhook_can_be_resumed(tmp_path: Path) -> None:
    async with operator(tmp_path) as here:
        (webhook,) = (await here.get())["webhooks"]
        await here.outbox.pause(webhook["id"], at=Moment(0), reason="it is gone")
        (paused,) = (await here.get())["webhooks"]
        assert (paused["status"], paused["reason"]) == ("paused", "it is gone")
        assert (await here.post(f"/{webhook['id']}/resume")).status_code == httpx2.codes.NO_CONTENT
        assert (await here.get())["webhooks"] == [webhook]
        assert (await here.post("/wh_other/resume")).status_code == httpx2.codes.NOT_FOUND


async def test_a_delivery_can_be_sent_again(tmp_path: Path) -> None:
    async with operator(tmp_path) as here:
        (delivery,) = (await here.get("/deliveries"))["deliveries"]
        again = await here.post(f"/deliveries/{delivery['id']}/redeliver")
        assert (again.status_code, again.json()["id"]) == (httpx2.codes.ACCEPTED, delivery["id"])
        gone = await here.post("/deliveries/dlv_other/redeliver")
        assert gone.status_code == httpx2.codes.NOT_FOUND


async def test_a_delivery_to_a_webhook_that_was_removed_is_not_sent_again(tmp_path: Path) -> None:
    async with operator(tmp_path):
        pass
    (tmp_path / "penstock.toml").write_text("")
    async with penstock.open(tmp_path, resume=False) as runtime:
        transport = httpx2.ASGITransport(create_application(runtime))
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            found = (await client.get("/api/webhooks/deliveries")).json()["deliveries"]
            again = await client.post(f"/api/webhooks/deliveries/{found[0]['id']}/redeliver")
            assert again.status_code == httpx2.codes.NOT_FOUND
            assert "not in penstock.toml" in again.json()["error"]["message"]
