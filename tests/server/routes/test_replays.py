"""Replays over HTTP."""

from typing import Any

import pytest

from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.server import served, use_key
from tests.kit.tools import Act

BRIEF = {"changes": {"systemPrompt": "Be brief."}}


async def test_a_replay_returns_the_first_difference() -> None:
    model = ScriptedModel([call("add"), say("Three.")])
    async with served(model=model, tools=[Act("add")]) as server:
        task_id = (await server.say("Sum?")).headers["x-task-id"]
        same = await server.client.post(f"/api/tasks/{task_id}/replay")
        assert (same.status_code, same.json()["equal"]) == (200, True)
        other = (await server.client.post(f"/api/tasks/{task_id}/replay", json=BRIEF)).json()
        difference = other["difference"]
        assert (difference["kind"], difference["path"]) == ("prompt", "task/1")
        begun = await server.client.post(f"/api/tasks/{task_id}/replay", json={"wait": 0})
        assert begun.status_code == 202
        later: Any = None
        while later is None or later.status_code == 202:
            later = await server.client.get(f"/api/replays/{begun.json()['replayId']}")
        assert later.json()["equal"] is True


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"changes": {"prompt": "x"}}, 422, "VALIDATION_ERROR"),
        ({"until": 0}, 422, "VALIDATION_ERROR"),
        ({"changes": {"model": "fast"}}, 422, "CONFIG_ERROR"),
        ({}, 409, "TASK_RUNNING"),
    ],
)
async def test_what_cannot_be_replayed_is_refused(
    body: dict[str, Any], status: int, code: str
) -> None:
    async with served(
        model=ScriptedModel([call("mail"), say("Done.")]),
        tools=[Act("mail", requires_approval=code == "TASK_RUNNING")],
    ) as server:
        task_id = (await server.say("Mail")).headers["x-task-id"]
        response = await server.client.post(f"/api/tasks/{task_id}/replay", json=body)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
        assert (await server.client.get("/api/replays/replay_1")).status_code == 404


async def test_a_task_whose_message_was_erased_is_not_replayed() -> None:
    async with served(model=ScriptedModel([say("Yes.")])) as server:
        answer = await server.say("Tea?")
        message = answer.json()["userMessage"]["id"]
        url = f"/api/agents/assistant/chat/messages/{message}"
        assert (await server.client.delete(url)).status_code == 204
        task_id = answer.headers["x-task-id"]
        response = await server.client.post(f"/api/tasks/{task_id}/replay", json={})
        assert (response.status_code, response.json()["error"]["code"]) == (409, "ERASED")


@pytest.mark.parametrize(
    ("permissions", "statuses"),
    [
        (("read",), (403, 403, 403)),
        (("read", "chat"), (200, 200, 403)),
        (("read", "chat", "admin"), (200, 200, 200)),
    ],
)
async def test_a_replay_needs_chat_and_one_that_asks_models_admin(
    permissions: tuple[str, ...], statuses: tuple[int, ...]
) -> None:
    async with served(model=ScriptedModel([say("Yes."), say("No.")])) as server:
        await use_key(server, "ann", "read", "chat")
        task_id = (await server.say("Tea?")).headers["x-task-id"]
        await use_key(server, "other", *permissions, profile="ann")
        url = f"/api/tasks/{task_id}/replay"
        bodies: list[dict[str, Any]] = [{}, BRIEF, BRIEF | {"live": True}]
        answers = [await server.client.post(url, json=body) for body in bodies]
    assert tuple(each.status_code for each in answers) == statuses


async def test_a_replay_of_a_task_of_another_profile_is_not_found() -> None:
    async with served(model=ScriptedModel([say("Yes.")])) as server:
        await use_key(server, "ann", "read", "chat")
        task_id = (await server.say("Tea?")).headers["x-task-id"]
        begun = await server.client.post(f"/api/tasks/{task_id}/replay", json={"wait": 0})
        await use_key(server, "bob", "read", "chat")
        answer = await server.client.post(f"/api/tasks/{task_id}/replay")
        report = await server.client.get(f"/api/replays/{begun.json()['replayId']}")
    assert (answer.status_code, report.status_code) == (404, 404)
