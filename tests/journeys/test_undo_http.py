"""Undos over HTTP that stop half way: a revert fails, a person is asked, a person says no."""

from typing import Any

import pytest

from penstock import ToolFailed, tool
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.server import InMemoryServer, served

DONE: list[str] = []
BROKEN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()
    BROKEN.clear()


@tool(requires_approval={"when": {"properties": {"output": {"const": "gold"}}}})
def give_back(input: dict[str, Any], output: str) -> str:
    """Give it back."""
    if output in BROKEN:
        raise ToolFailed("the till is closed", "CLOSED")
    DONE.append(output)
    return "given"


@tool(revert=give_back)
def take(item: str) -> str:
    """Take something."""
    return item


def shop(*items: str) -> dict[str, Any]:
    """Return the parts of a server whose model takes these items."""
    model = ScriptedModel([*(call("take", item=item) for item in items), say("Done.")])
    return {"model": model, "tools": [take, give_back]}


async def taken(server: InMemoryServer) -> str:
    """Let the model take the items; returns the place of the task's undo."""
    response = await server.say("Go")
    return f"/api/tasks/{response.headers['x-task-id']}/undo"


async def undone(server: InMemoryServer, place: str, **body: Any) -> dict[str, Any]:
    """Undo the task, and return what came of it once it has ended or waits."""
    begun = await server.client.post(place, json=body)
    assert begun.status_code in {200, 202}, begun.text
    undo_id = begun.json()["undoId"]
    if undo_id is None:
        return dict(begun.json())
    await server.runtime.requests.wait(undo_id)
    listed = (await server.client.get(f"/api/tasks/{undo_id}")).json()
    plan = (await server.client.post(place, json={"dryRun": True})).json()
    return {**plan, "undoId": undo_id, "status": listed["status"], "task": listed}


def states(undo: dict[str, Any]) -> list[str]:
    return [each["status"] for each in undo["calls"]]


async def test_a_revert_that_fails_leaves_the_rest_to_a_person_and_nothing_runs_twice() -> None:
    """Issue 13: "a revert that fails half way (the rest waits for a person, …)"."""
    async with served(**shop("tea", "cup", "pot")) as server:
        place = await taken(server)
        BROKEN.append("cup")
        failed = await undone(server, place)
        assert (failed["status"], states(failed)) == ("failed", ["undone", "ready", "ready"])
        assert "'give_back' could not take back 'take'" in failed["task"]["error"]["message"]
        assert "mend the cause and undo the task again" in failed["task"]["error"]["message"]
        assert DONE == ["pot"]
        again = await undone(server, place)
        assert (again["undoId"], DONE) == (f"{failed['undoId']}.2", ["pot"])
        BROKEN.clear()
        rest = await undone(server, place)
        assert (rest["status"], states(rest)) == ("succeeded", ["undone"] * 3)
        assert DONE == ["pot", "cup", "tea"]
        last = await undone(server, place)
        assert (last["undoId"], DONE) == (rest["undoId"], ["pot", "cup", "tea"])


async def test_a_revert_that_waits_for_approval_keeps_its_question_until_it_is_answered() -> None:
    """A repeated request finds the undo that waits, and asks nothing new."""
    async with served(**shop("tea", "gold", "pot")) as server:
        place, asked = await taken(server), list[Any]()
        for _ in range(2):
            waiting = await undone(server, place)
            assert (waiting["status"], DONE) == ("suspended", ["pot"])
            asked = (await server.client.get("/api/questions")).json()["questions"]
            assert [each["taskId"] for each in asked] == [waiting["undoId"]]
        (question,) = asked
        answer = {"decision": "approve"}
        said = await server.client.post(f"/api/questions/{question['id']}/answer", json=answer)
        assert said.status_code == 200, said.text
        done = await undone(server, place)
        assert (done["status"], states(done)) == ("succeeded", ["undone"] * 3)
        assert DONE == ["pot", "gold", "tea"]


@pytest.mark.parametrize("end", ["reject", "cancel"])
async def test_an_undo_that_a_person_ends_leaves_the_rest_for_another(end: str) -> None:
    async with served(**shop("tea", "gold", "pot")) as server:
        place = await taken(server)
        waiting = await undone(server, place)
        (question,) = (await server.client.get("/api/questions")).json()["questions"]
        if end == "reject":
            body = {"decision": "reject", "note": "not now"}
            await server.client.post(f"/api/questions/{question['id']}/answer", json=body)
        else:
            await server.client.post(f"/api/tasks/{waiting['undoId']}/cancel")
        await server.runtime.requests.wait(waiting["undoId"])
        plan = (await server.client.post(place, json={"dryRun": True})).json()
        assert (states(plan), DONE) == (["undone", "ready", "ready"], ["pot"])
        tea = plan["calls"][2]["id"]
        assert states(await undone(server, place, callId=tea)) == ["undone", "ready", "undone"]
        assert DONE == ["pot", "tea"]
        third = await undone(server, place)
        assert (third["status"], DONE) == ("suspended", ["pot", "tea"])
