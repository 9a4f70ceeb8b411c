"""A person follows a conversation, and sees and answers the questions of its children there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock import ToolContext, tool
from penstock.app.runtime import Runtime
from penstock.core.call import Effect
from penstock.core.events.child_events import TreeAsked
from penstock.core.ids import LogId
from penstock.models.scripted import Hold, ScriptedModel, call, say, wait
from penstock.server.application import create_application
from tests.kit.listener import listening
from tests.kit.server import CHAT, frames, in_memory
from tests.kit.tools import Act, echo

SENT = {"apples": [call("send", to="ann"), say("Sent to Ann.")]}
PEARS = {"pears": [call("send", to="bob"), say("Sent to Bob.")]}
GO = {"Go": [call("plan"), say("All done.")]}


def planned(*objectives: str, **options: Any) -> Any:
    """Return the tool `plan`, which has children with these objectives."""

    @tool(effect="none")
    async def plan(ctx: ToolContext) -> list[Any]:
        """Plan."""
        children = [await ctx.spawn(each, key=each, **options) for each in objectives]
        return await ctx.gather(*children)

    return plan


def sender() -> Act:
    return Act("send", echo, effect=Effect.WRITE, requires_approval=True)


@asynccontextmanager
async def served(
    script: dict[str, Any], *tools: Any, **options: Any
) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    """Serve a runtime over HTTP; yield it and a client."""
    async with (
        in_memory(model=ScriptedModel(script), tools=tools, **options) as runtime,
        listening(create_application(runtime)) as url,
        httpx2.AsyncClient(base_url=url, timeout=10) as client,
    ):
        yield runtime, client


async def told(client: httpx2.AsyncClient, **query: Any) -> list[tuple[str, dict[str, Any]]]:
    """Send the message, or follow the conversation; return the frames of the whole stream."""
    if query:
        response = await client.get(f"{CHAT}/stream", params=query)
    else:
        response = await client.post(CHAT, json={"content": "Go", "stream": True})
    assert response.status_code == 200, response.text
    return frames(response.text)


async def approve(client: httpx2.AsyncClient, question_id: str) -> None:
    place = f"/api/questions/{question_id}/answer"
    assert (await client.post(place, json={"decision": "approve"})).is_success


def types(found: list[tuple[str, dict[str, Any]]]) -> list[str]:
    kept = {"content_delta", "thinking"}
    return [frame["type"] for _, frame in found if frame["type"] not in kept]


async def test_a_question_of_a_child_is_answered_where_the_root_is_followed() -> None:
    send = sender()
    async with served({**GO, **SENT}, planned("Count the apples"), send) as (_, client):
        parked = await told(client)
        assert types(parked) == ["message_start", "tool_call", "question", "suspended"]
        (_, question), (last, suspended) = parked[-2:]
        child = question["taskId"]
        assert question["path"] == [f"child/{child}", "send"]
        assert (question["toolName"], question["arguments"]) == ("send", {"to": "ann"})
        assert "toolCallId" not in question
        assert suspended["taskId"] == parked[0][1]["taskId"] != child
        assert suspended["questions"] == [question["id"]]
        await approve(client, question["id"])
        conversation = parked[0][1]["conversationId"]
        rest = await told(client, conversationId=conversation, lastEventId=last)
        assert types(rest) == ["question_answered", "tool_result", "message_complete"]
        answered = {"id": question["id"], "status": "answered", "taskId": child}
        assert rest[0][1] | answered == rest[0][1]
        assert rest[0][1]["answer"] == {"decision": "approve"}
        assert rest[1][1]["result"] == ["Sent to Ann."]
    assert send.runs == [{"to": "ann"}]


async def test_a_stream_cut_at_any_frame_and_opened_again_shows_the_same() -> None:
    tools = (planned("Count the apples", "Count the pears"), sender())
    async with served({**GO, **SENT, **PEARS}, *tools) as (_, client):
        parked = await told(client)
        asked = [frame["id"] for _, frame in parked if frame["type"] == "question"]
        assert sorted(parked[-1][1]["questions"]) == sorted(asked)
        conversation = parked[0][1]["conversationId"]
        for question_id in asked:
            await approve(client, question_id)
        last = parked[-1][0]
        rest = await told(client, conversationId=conversation, lastEventId=last, follow="false")
        whole = await told(client, conversationId=conversation) if rest else []
        assert types(whole)[-1] == "message_complete"
        assert types(whole).count("question") == types(whole).count("question_answered") == 2
        for place, (cut, _) in enumerate(whole[:-1]):
            again = await told(client, conversationId=conversation, lastEventId=cut)
            assert again == whole[place + 1 :]


async def test_the_tree_is_suspended_only_once_nothing_in_it_continues() -> None:
    hold = Hold()
    script = {**GO, **SENT, "pears": [wait(hold) + say("No pears.")]}
    tools = (planned("Count the apples", "Count the pears"), sender())
    async with served(script, *tools) as (_, client):
        request = {"content": "Go", "stream": True}
        async with client.stream("POST", CHAT, json=request) as response:
            text = ""
            async for chunk in response.aiter_text():
                text += chunk
                if '"type":"question"' in text and not hold._released.is_set():  # noqa: SLF001
                    await hold.reached()
                    assert "suspended" not in text
                    hold.release()
    assert types(frames(text)) == ["message_start", "tool_call", "question", "suspended"]


async def test_a_grandchild_asks_at_the_root() -> None:
    @tool(effect="none")
    async def delegate(ctx: ToolContext) -> list[Any]:
        """Delegate."""
        return await ctx.gather(await ctx.spawn("Count the apples"))

    script = {**GO, **SENT, "Delegate it": [call("delegate"), say("Delegated.")]}
    async with served(script, planned("Delegate it"), delegate, sender()) as (runtime, client):
        parked = await told(client)
        assert types(parked) == ["message_start", "tool_call", "question", "suspended"]
        records = await runtime.parts.storage.log.read(LogId(parked[0][1]["conversationId"]))
    noted = [each.event for each in records if isinstance(each.event, TreeAsked)]
    assert [bool(each.question) for each in noted] == [True, False]


async def test_a_rejected_question_of_a_child_is_answered_and_the_chat_goes_on() -> None:
    script = {**GO, "apples": [call("send", to="ann"), say("I may not.")]}
    async with served(script, planned("Count the apples"), sender()) as (_, client):
        parked = await told(client)
        place = f"/api/questions/{parked[-2][1]['id']}/answer"
        rejected = {"decision": "reject", "note": "no"}
        assert (await client.post(place, json=rejected)).is_success
        query = {"conversationId": parked[0][1]["conversationId"], "lastEventId": parked[-1][0]}
        rest = await told(client, **query)
    assert rest[0][1]["answer"] == rejected
    assert types(rest) == ["question_answered", "tool_result", "message_complete"]


async def test_a_chat_that_is_cancelled_closes_the_questions_of_its_children() -> None:
    async with served({**GO, **SENT}, planned("Count the apples"), sender()) as (_, client):
        parked = await told(client)
        task_id, question_id = parked[0][1]["taskId"], parked[-2][1]["id"]
        assert (await client.post(f"/api/tasks/{task_id}/cancel")).status_code == 202
        async with asyncio.timeout(10):
            while True:
                question = (await client.get(f"/api/questions/{question_id}")).json()
                if question["status"] != "open":
                    break
    assert question["status"] == "cancelled"


@pytest.mark.slow("two processes, one after the other")
async def test_another_process_reports_nothing_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/penstock.db"
    tools = (planned("Count the apples", "Count the pears"), sender())
    async with served({**GO, **SENT, **PEARS}, *tools, url=url) as (_, client):
        parked = await told(client)
    conversation = parked[0][1]["conversationId"]
    asked = [frame["id"] for _, frame in parked if frame["type"] == "question"]
    for number in (0, 1):
        async with served({**GO, **SENT, **PEARS}, *tools, url=url) as (_, client):
            await approve(client, asked[number])
            last = parked[-1][0]
            parked = await told(client, conversationId=conversation, lastEventId=last)
        expected = ["question_answered", "suspended"]
        done = ["question_answered", "tool_result", "message_complete"]
        assert types(parked) == (done if number else expected)
