"""A chat that waits for a flow run, as clients of the server see it."""

from pathlib import Path
from typing import Any

from penstock.core.ids import TaskId
from tests.kit.flow_server import flow_server
from tests.kit.server import InMemoryServer, frames


def types(text: str) -> list[str]:
    return [data["type"] for _, data in frames(text)]


async def asked(server: InMemoryServer) -> dict[str, Any]:
    """Return the one question that is open."""
    (body,) = (await server.client.get("/api/questions?status=open")).json()["questions"]
    return dict(body)


async def test_a_stream_ends_when_a_run_asks_and_can_be_resumed(tmp_path: Path) -> None:
    """The `suspended` frame names the runs beside the questions."""
    async with flow_server(tmp_path) as server:
        parked = await server.stream("/dom:asks now")
        assert types(parked.text) == ["message_start", "tool_call", "suspended"]
        last, frame = frames(parked.text)[-1]
        question = await asked(server)
        assert frame["questions"] == []
        assert frame["runs"] == [question["taskId"]]
        name, task = parked.headers["x-conversation-id"], frame["taskId"]
        assert (await server.follow(name, lastEventId=last)).status_code == 204
        shown = (await server.client.get(f"/api/tasks/{task}")).json()
        assert (shown["status"], shown["questions"], shown["runs"]) == (
            "suspended",
            [],
            frame["runs"],
        )
        place = f"/api/questions/{question['id']}/answer"
        assert (await server.client.post(place, json={"value": "Stop"})).is_success
        await server.runtime.requests.wait(TaskId(task))
        rest = await server.follow(name, lastEventId=last)
        assert types(rest.text) == ["tool_result", "message_complete"]
        assert frames(rest.text)[-1][1]["content"] == "told"
        assert (await server.client.get(f"/api/tasks/{task}")).json()["runs"] == []


async def test_a_waiting_client_gets_the_questions_of_the_run(tmp_path: Path) -> None:
    async with flow_server(tmp_path) as server:
        parked = await server.say("/dom:asks now")
        question = await asked(server)
        waits = parked.json()["suspended"]
    assert parked.status_code == 202
    assert [each["id"] for each in waits["questions"]] == [question["id"]]
    assert waits["runs"] == [question["taskId"]]
