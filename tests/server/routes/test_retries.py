"""Retries over HTTP: what is refused."""

from typing import Any

import pytest

from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.server import served
from tests.kit.tools import Act


@pytest.mark.parametrize(
    ("body", "approval", "status", "code"),
    [
        ({}, False, 409, "TASK_ENDED"),
        ({"mode": "resume"}, False, 409, "TASK_ENDED"),
        ({}, True, 409, "TASK_RUNNING"),
        ({"mode": "again"}, False, 422, "VALIDATION_ERROR"),
        ({"resume": True}, False, 422, "VALIDATION_ERROR"),
        ([], False, 422, "VALIDATION_ERROR"),
    ],
)
async def test_what_cannot_be_retried_is_refused(
    body: Any, status: int, code: str, *, approval: bool
) -> None:
    async with served(
        model=ScriptedModel([call("mail"), say("Done.")]),
        tools=[Act("mail", requires_approval=approval)],
    ) as server:
        task_id = (await server.say("Mail")).headers["x-task-id"]
        response = await server.client.post(f"/api/tasks/{task_id}/retry", json=body)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)


async def test_an_unknown_task_is_not_found() -> None:
    async with served() as server:
        response = await server.client.post("/api/tasks/task_none/retry")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND")
