"""Requests for an undo over HTTP: the plan, the undo as a task, and who may ask for it."""

from typing import Any

import pytest

from penstock import tool
from penstock.core.errors import NotFound
from penstock.core.ids import ProfileId
from penstock.core.profile import Profile
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.server import served


@tool
def return_it(input: dict[str, Any], output: str) -> str:
    """Give it back."""
    return f"{output} is back"


@tool(revert=return_it)
def borrow(item: str) -> str:
    """Take it."""
    return item


async def test_a_task_is_undone_over_http() -> None:
    """The plan first, then the undo, which is a task; a repeated request finds it."""
    model = ScriptedModel([call("borrow", item="tea"), say("Done.")])
    async with served(model=model, tools=[borrow, return_it]) as server:
        task_id = (await server.say("Take tea")).headers["x-task-id"]
        place = f"/api/tasks/{task_id}/undo"
        plan = (await server.client.post(place, json={"dryRun": True})).json()
        (planned,) = plan["calls"]
        assert (plan["status"], plan["undoId"]) == ("planned", None)
        assert {**planned, "id": ""} == {
            "id": "",
            "tool": "borrow",
            "status": "ready",
            "revert": "return_it",
            "input": {"item": "tea"},
        }
        begun = await server.client.post(place, json={"callId": planned["id"]})
        undo_id = begun.json()["undoId"]
        assert begun.status_code in {200, 202}
        await server.runtime.requests.wait(undo_id)
        again = await server.client.post(place)
        assert (again.status_code, again.json()["undoId"]) == (200, undo_id)
        assert [each["status"] for each in again.json()["calls"]] == ["undone"]
        task = (await server.client.get(f"/api/tasks/{undo_id}")).json()
        assert task["result"]["output"] == {
            "task": task_id,
            "undone": [{"call": planned["id"], "tool": "borrow"}],
        }


@pytest.mark.parametrize(
    ("task_id", "body", "status"),
    [
        ("task_x", {}, 404),
        ("", {"callId": "77"}, 404),
        ("", {"call": "77"}, 422),
        ("", {"dryRun": "yes"}, 422),
        ("", [], 422),
    ],
)
async def test_a_wrong_request_for_an_undo_is_refused(task_id: str, body: Any, status: int) -> None:
    model = ScriptedModel([call("borrow", item="tea"), say("Done.")])
    async with served(model=model, tools=[borrow, return_it]) as server:
        made = (await server.say("Take tea")).headers["x-task-id"]
        response = await server.client.post(f"/api/tasks/{task_id or made}/undo", json=body)
        assert response.status_code == status, response.text


async def test_only_its_owner_undoes_a_task() -> None:
    model = ScriptedModel([call("borrow", item="tea"), say("Done.")])
    async with served(model=model, tools=[borrow, return_it]) as server:
        task_id = (await server.say("Take tea")).headers["x-task-id"]
        ann = Profile(profile_id=ProfileId("ann"), permissions=frozenset({"chat"}))
        with pytest.raises(NotFound):
            await server.runtime.requests.undos.start(task_id, None, ann)
