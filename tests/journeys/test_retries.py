"""Retries of flows and over HTTP, on a real database."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, fail, say
from tests.kit.flow_server import flow_server
from tests.kit.flows import HEAD, finish
from tests.kit.server import served

TWO = (
    HEAD
    + """steps:
  - {id: look, agent: scout, task: "look"}
  - {id: tell, agent: writer, task: "tell", blockedBy: [look]}
"""
)


def once_refused(asked: list[str], name: str) -> Callable[[ModelRequest], ScriptedReply]:
    """Return what answers a step: an error at first."""

    def answer(_: ModelRequest) -> ScriptedReply:
        asked.append(name)
        return fail(400) if asked.count("tell") == 1 and name == "tell" else finish(name)

    return answer


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({"mode": "resume"}, ["look", "tell", "tell"]),
        ({"mode": "fresh"}, ["look", "tell", "look", "tell"]),
        ({}, ["look", "tell", "look", "tell"]),
    ],
)
async def test_a_run_starts_again_whole_or_with_the_step_that_failed(
    tmp_path: Path, body: dict[str, Any], asked: list[str]
) -> None:
    made: list[str] = []
    answers = {name: once_refused(made, name) for name in ("look", "tell")}
    async with flow_server(tmp_path, answers, two=TWO) as server:
        run = (await server.client.post("/api/flows/two/runs", json={})).json()["runId"]
        failed = await server.runtime.requests.wait(run)
        assert failed
        assert failed.status == "failed"
        retry = await server.client.post(f"/api/tasks/{run}/retry", json=body)
        assert (retry.status_code, retry.json()) == (
            202,
            {"id": f"retry_{run}", "conversationId": None, "retryOf": run},
        )
        ended = await server.runtime.requests.wait(f"retry_{run}")
        assert ended
        assert (ended.status, made) == ("succeeded", asked)
        tree = (await server.client.get(f"/api/tasks/retry_{run}/tree")).json()
        assert (tree["task"]["retryOf"], tree["task"]["status"]) == (run, "succeeded")


async def test_a_conversation_shows_the_answer_of_a_retry_over_http() -> None:
    async with served(model=ScriptedModel([fail(400), say("Hello.")])) as server:
        failed = await server.say("Hi")
        task_id = failed.headers["x-task-id"]
        retry = (await server.client.post(f"/api/tasks/{task_id}/retry")).json()
        assert retry["conversationId"] == failed.headers["x-conversation-id"]
        await server.runtime.requests.wait(retry["id"])
        again = await server.client.post(f"/api/tasks/{task_id}/retry")
        assert (again.status_code, again.json()) == (202, retry)
        shown = (await server.client.get(f"/api/tasks/{retry['id']}")).json()
        assert (shown["status"], shown["retryOf"]) == ("succeeded", task_id)
