"""A conversation whose agent this server lacks: it can be read, answered and deleted."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.core.limits import Limits
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.server import InMemoryServer, served
from tests.kit.tools import Act

CLERK = "/api/agents/clerk/chat"
LIMITS = Limits(poll_seconds=0.01, sweep_seconds=0.05)
BLOCKED_ON = [{"kind": "agent", "id": "clerk"}]


def opened(folder: Path, *agents: Agent) -> Any:
    model = ScriptedModel({"Pay!": [call("pay"), say("Paid.")]})
    tools = [Act("pay", requires_approval=True)]
    url = f"sqlite:///{folder}/a.db"
    return served(url=url, model=model, tools=tools, agents=agents, limits=LIMITS)


async def parked(folder: Path) -> tuple[str, str, str]:
    """Have a conversation wait for a person; returns it, its task and its question."""
    async with opened(folder, Agent("clerk")) as server:
        sent = await server.client.post(CLERK, json={"content": "Pay!"})
        asked = sent.json()
        question = asked["suspended"]["questions"][0]["id"]
        return asked["conversationId"], asked["taskId"], question


async def streamed(server: InMemoryServer, conversation: str) -> list[dict[str, Any]]:
    """Return the frames of a conversation."""
    query = {"conversationId": conversation}
    response = await server.client.get(f"{CLERK}/stream", params=query)
    assert response.status_code == 200, response.text
    lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def answered(server: InMemoryServer, task: str, question: str) -> None:
    """Approve, and wait until the task is blocked."""
    path = f"/api/questions/{question}"
    response = await server.client.post(f"{path}/answer", json={"decision": "approve"})
    assert response.status_code == 200, response.text
    reply = await server.runtime.requests.wait(task)
    assert reply
    assert [each.to_wire() for each in reply.blocked_on] == BLOCKED_ON


async def test_an_answer_is_accepted_and_the_stream_reports_the_missing_agent(
    tmp_path: Path,
) -> None:
    conversation, task, question = await parked(tmp_path)
    async with opened(tmp_path) as server:
        await answered(server, task, question)
        last = (await streamed(server, conversation))[-1]
        assert (last["type"], last["blockedOn"]) == ("suspended", BLOCKED_ON)
        assert "agent 'clerk' is missing in this process" in last["message"]
        shown = (await server.client.get(f"/api/tasks/{task}")).json()
        assert (shown["status"], shown["blockedOn"]) == ("blocked", BLOCKED_ON)
    async with opened(tmp_path, Agent("clerk")) as server:
        reply = await server.runtime.requests.wait(task)
        assert reply
        assert reply.content == "Paid."


READS = ["", "/conversations", "/stream"]


@pytest.mark.parametrize("path", READS)
async def test_the_conversation_with_a_missing_agent_can_be_read(path: str, tmp_path: Path) -> None:
    conversation, task, question = await parked(tmp_path)
    async with opened(tmp_path) as server:
        await answered(server, task, question)
        query = {} if path == "/conversations" else {"conversationId": conversation}
        response = await server.client.get(f"{CLERK}{path}", params=query)
        assert response.status_code == 200, response.text
        assert conversation in response.text
        page = await server.client.get(f"/c/{conversation}")
        assert (page.status_code, "Pay!" in page.text) == (200, True)


async def test_a_task_of_a_missing_agent_can_be_cancelled_and_its_conversation_deleted(
    tmp_path: Path,
) -> None:
    conversation, task, question = await parked(tmp_path)
    async with opened(tmp_path) as server:
        await answered(server, task, question)
        cancelled = await server.client.post(f"/api/tasks/{task}/cancel")
        assert cancelled.status_code == 202
        reply = await server.runtime.requests.wait(task)
        assert reply
        assert reply.status == "cancelled"
        gone = await server.client.delete(f"{CLERK}/conversations/{conversation}")
        assert gone.status_code == 204
        assert (await server.client.get(f"{CLERK}/conversations")).status_code == 404


async def test_all_its_conversations_are_deleted_while_one_is_blocked(tmp_path: Path) -> None:
    conversation, task, question = await parked(tmp_path)
    async with opened(tmp_path) as server:
        await answered(server, task, question)
        assert (await server.client.delete(CLERK)).status_code == 204
        assert (await server.client.get(f"/c/{conversation}")).status_code == 404
        assert (await server.client.delete(CLERK)).status_code == 404


@pytest.mark.parametrize("path", ["", "/conversations", "/tools", "/models", "/tools/metrics"])
async def test_an_agent_without_conversations_is_not_found(path: str, tmp_path: Path) -> None:
    async with opened(tmp_path) as server:
        place = CLERK.removesuffix("/chat") if path == "/tools/metrics" else CLERK
        response = await server.client.get(f"{place}{path}")
        assert response.status_code == 404
        assert "There is no agent 'clerk'" in response.json()["error"]["message"]


async def test_a_message_to_a_missing_agent_is_refused(tmp_path: Path) -> None:
    conversation, *_ = await parked(tmp_path)
    async with opened(tmp_path) as server:
        body = {"content": "Pay!", "conversationId": conversation}
        response = await server.client.post(CLERK, json=body)
        assert response.status_code == 404
        assert "There is no agent 'clerk'" in response.json()["error"]["message"]
