"""The start of a stream: after a message, or where a reader left it."""

import asyncio
from typing import Any

import pytest

from penstock.core.events.events import Entry, MessageReceived
from penstock.core.ids import LogId, MessageId, TaskId
from penstock.core.task import TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, call, say, think, wait
from penstock.store.projections import Page
from tests.kit.conversation_events import joined
from tests.kit.server import CHAT, InMemoryServer, frames, served, types
from tests.kit.tools import Act


def two_steps() -> ScriptedModel:
    """Think, call a tool, and answer."""
    return ScriptedModel({"": [think("Let me") + call("add", a=1), say("It ", "is ", "three.")]})


async def conversation(server: InMemoryServer) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """Have a conversation of one message, and return its frames."""
    response = await server.stream("Hi")
    return response.headers["x-conversation-id"], frames(response.text)


async def settle(server: InMemoryServer) -> None:
    """Let requested streams start: the database answers in order."""
    for _ in range(5):
        await server.client.get(CHAT)


async def test_resuming_after_any_frame_returns_the_rest() -> None:
    """Frames up to id X, then the stream opened with X, are together the uninterrupted stream."""
    async with served(model=two_steps(), tools=[Act("add")]) as server:
        name, whole = await conversation(server)
        result = joined(frame for _, frame in whole)
        for number, (last, _) in enumerate(whole[:-1], 1):
            headers = {"last-event-id": last}
            query = {"conversationId": name}
            rest = await server.client.get(f"{CHAT}/stream", params=query, headers=headers)
            got = [frame for _, frame in whole[:number] + frames(rest.text)]
            assert joined(got) == result, last


async def test_a_stream_of_an_ended_task_has_its_ids() -> None:
    async with served() as server:
        name, whole = await conversation(server)
        task = whole[0][1]["taskId"]
        for query in ({}, {"lastEventId": whole[1][0]}, {"taskId": task}):
            shown = await server.follow(name, **query)
            assert (shown.status_code, shown.headers["x-task-id"]) == (200, task)


async def test_a_stream_without_further_frames_is_204() -> None:
    async with served() as server:
        name, whole = await conversation(server)
        assert (await server.follow(name, lastEventId=whole[-1][0])).status_code == 204
        assert (await server.follow(name, **{"from": "now"})).status_code == 204
        started = await server.client.post(f"{CHAT}/conversations")
        assert (await server.follow(started.json()["id"])).status_code == 204


@pytest.mark.parametrize("last", ["x", "1.", "99", "7.0.1"])
async def test_an_invalid_last_event_id_is_refused(last: str) -> None:
    async with served() as server:
        name, _ = await conversation(server)
        response = await server.follow(name, lastEventId=last)
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "BAD_LAST_EVENT_ID"


@pytest.mark.parametrize("beyond", [1, 999_999])
async def test_a_position_after_the_end_of_a_reply_is_refused(beyond: int) -> None:
    """Otherwise the calls after the reply, or its end, would count as seen."""
    model = ScriptedModel([call("add", a=1) + call("add", a=2), say("Three.")])
    async with served(model=model, tools=[Act("add")]) as server:
        name, whole = await conversation(server)
        inside = [last.split(".") for last, _ in whole if "." in last]
        for seq in {seq for seq, _ in inside}:
            most = max(int(units) for each, units in inside if each == seq)
            taken = await server.follow(name, lastEventId=f"{seq}.{most}")
            refused = await server.follow(name, lastEventId=f"{seq}.{most + beyond}")
            assert (taken.status_code, refused.status_code) == (200, 400)
            assert refused.json()["error"]["code"] == "BAD_LAST_EVENT_ID"


async def test_a_stream_without_an_id_starts_with_the_newest_task() -> None:
    async with served() as server:
        name, _ = await conversation(server)
        second = await server.stream("Again", conversationId=name)
        shown = await server.follow(name)
        assert frames(shown.text)[0] == frames(second.text)[0]
        assert shown.headers["x-conversation-id"] == name


async def test_a_stream_can_show_one_task() -> None:
    async with served() as server:
        name, first = await conversation(server)
        await server.stream("Again", conversationId=name)
        shown = await server.follow(name, taskId=first[0][1]["taskId"])
        assert frames(shown.text)[0] == first[0]
        assert types(shown.text)[-1] == "message_complete"
        assert (await server.follow(name, taskId="task_none")).status_code == 404


async def test_an_older_position_shows_all_later_frames() -> None:
    async with served() as server:
        name, first = await conversation(server)
        await server.stream("Again", conversationId=name)
        shown = await server.follow(name, lastEventId=first[-2][0])
        assert [kind for kind in types(shown.text) if kind.startswith("message")] == [
            "message_complete",
            "message_start",
            "message_complete",
        ]


async def test_a_stream_resumes_in_the_middle_of_a_reply() -> None:
    hold = Hold()
    model = ScriptedModel([say("Good ", "day") + wait(hold) + say(", Ann.")])
    async with served(model=model) as server:
        started = await server.client.post(f"{CHAT}/conversations")
        name = started.json()["id"]
        first = asyncio.create_task(server.stream("Hi", conversationId=name))
        await hold.reached()
        again = asyncio.create_task(server.follow(name, lastEventId="3.3"))
        now = asyncio.create_task(server.follow(name, **{"from": "now"}))
        await settle(server)
        hold.release()
        _, shown, newest = await first, await again, await now
        deltas = [frame["delta"] for _, frame in frames(shown.text) if "delta" in frame]
        assert "".join(deltas) == "d day, Ann."
        assert frames(newest.text)[0][1]["delta"] == ", Ann."


async def test_a_reader_that_joins_between_two_tries_gets_the_whole_reply() -> None:
    """`from=now`: future frames, even if a message was queued since the model was called."""
    hold = Hold()
    model = ScriptedModel([wait(hold) + say("One."), say("Two.")])
    async with served(model=model) as server:
        name = (await server.client.post(f"{CHAT}/conversations")).json()["id"]
        first = asyncio.create_task(server.stream("Hi", conversationId=name))
        await hold.reached()
        bus = server.runtime.parts.engine.bus
        if reply := bus.reply(LogId(name)):
            bus.end(reply)
        second = asyncio.create_task(server.stream("Ho", conversationId=name))
        await settle(server)
        now = asyncio.create_task(server.follow(name, **{"from": "now"}))
        await settle(server)
        hold.release()
        values = [each.get("delta") for _, each in frames((await now).text)]
        assert [each for each in values if each] == ["One.", "Two."]
        await asyncio.gather(first, second)


async def test_a_position_that_a_reply_has_not_reached_is_refused() -> None:
    """Malformed id, or one beyond the log: 400 `BAD_LAST_EVENT_ID`.

    What was still to be said up to there would be taken for seen.
    """
    hold = Hold()
    model = ScriptedModel([say("Good ", "day") + wait(hold) + say(", Ann.")])
    async with served(model=model) as server:
        name = (await server.client.post(f"{CHAT}/conversations")).json()["id"]
        first = asyncio.create_task(server.stream("Hi", conversationId=name))
        await hold.reached()
        refused = await server.follow(name, lastEventId="3.9")
        at_its_end = asyncio.create_task(server.follow(name, lastEventId="3.8"))
        await settle(server)
        hold.release()
        rest, _ = await at_its_end, await first
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "BAD_LAST_EVENT_ID")
    assert refused.json()["error"]["message"] == "the reply after 3 is at 3.8"
    assert frames(rest.text)[0][1]["delta"] == ", Ann."


async def test_a_stream_of_a_queued_message_waits_for_its_turn() -> None:
    hold = Hold()
    model = ScriptedModel([wait(hold) + say("One."), say("Two.")])
    async with served(model=model) as server:
        started = await server.client.post(f"{CHAT}/conversations")
        name = started.json()["id"]
        first = asyncio.create_task(server.stream("Hi", conversationId=name))
        await hold.reached()
        second = asyncio.create_task(server.stream("Ho", conversationId=name))
        await settle(server)
        hold.release()
        assert frames((await first).text)[-1][1]["content"] == "One."
        assert types((await second).text)[0] == "message_start"
        assert frames((await second).text)[-1][1]["content"] == "Two."


async def test_a_message_that_answers_a_question_continues_its_task() -> None:
    """While `ask_user` is open the message is its answer."""
    model = ScriptedModel([call("mail"), say("Sent.")])
    async with served(model=model, tools=[Act("mail", requires_approval=True)]) as server:
        parked = await server.stream("Mail")
        assert types(parked.text)[-1] == "suspended"
        name = parked.headers["x-conversation-id"]
        assert (
            await server.follow(name, lastEventId=frames(parked.text)[-1][0])
        ).status_code == 204
        question = frames(parked.text)[-1][1]["questions"][0]
        await server.client.post(f"/api/questions/{question}/answer", json={"decision": "reject"})
        rest = await server.follow(name, lastEventId=frames(parked.text)[-1][0])
        assert types(rest.text)[:2] == ["question_answered", "tool_result"]
        assert types(rest.text)[-1] == "message_complete"


async def test_a_queued_message_that_is_cancelled_ends_at_once() -> None:
    """A cancel ends a task, whatever it is doing: also while it waits for another."""
    hold = Hold()
    model = ScriptedModel([wait(hold) + say("One.")])
    async with served(model=model) as server:
        name = (await server.client.post(f"{CHAT}/conversations")).json()["id"]
        first = asyncio.create_task(server.stream("Hi", conversationId=name))
        await hold.reached()
        session = asyncio.create_task(server.follow(name))
        second = asyncio.create_task(server.stream("Ho", conversationId=name))
        await settle(server)
        lists = server.runtime.parts.storage.projections
        (queued,), _ = await lists.tasks(log_id=LogId(name), page=Page(limit=1))
        assert queued.status is TaskStatus.QUEUED
        await server.client.post(f"/api/tasks/{queued.task_id}/cancel")
        shown = frames((await asyncio.wait_for(second, 5)).text)
        assert [(each["type"], each["code"]) for _, each in shown] == [("error", "CANCELLED")]
        hold.release()
        assert frames((await first).text)[-1][1]["content"] == "One."
        assert frames((await session).text)[-1][1]["content"] == "One."
        messages = (await server.client.get(CHAT)).json()["messages"]
        assert [each["content"] for each in messages] == ["Hi", "One.", "Ho"]


async def test_a_stream_ends_with_its_conversation() -> None:
    """It is followed until it is deleted; no ping follows."""
    async with served() as server:
        name, seen = await conversation(server)
        again = asyncio.create_task(server.follow(name, follow="true", lastEventId=seen[-1][0]))
        await settle(server)
        assert not again.done()
        await server.client.delete(f"{CHAT}/conversations/{name}")
        shown = await asyncio.wait_for(again, 5)
        assert (shown.status_code, frames(shown.text)) == (200, [])
        assert (await server.follow(name)).status_code == 404


async def test_a_conversation_of_another_agent_is_not_found() -> None:
    async with served() as server:
        name, _ = await conversation(server)
        url = "/api/agents/missing/chat/stream"
        assert (await server.client.get(url, params={"conversationId": name})).status_code == 404
        assert (await server.follow("conv_none")).status_code == 404
        assert (await server.client.get(f"{CHAT}/stream")).status_code == 400


async def test_a_stream_without_an_id_starts_after_ended_tasks_if_another_waits() -> None:
    """The newest task has not started: no frame of the ended one is shown."""
    async with served() as server:
        name, first = await conversation(server)
        waiting = TaskId("task_waiting")
        message = MessageReceived(message_id=MessageId("msg_waiting"), content="Ho")
        await server.runtime.parts.storage.log.send(LogId(name), [Entry(message, waiting)])
        following = asyncio.create_task(server.follow(name))
        await settle(server)
        server.runtime.parts.engine.launcher.wake(LogId(name))
        shown = frames((await following).text)
    assert {frame["taskId"] for _, frame in shown if "taskId" in frame} == {waiting}
    assert first[0] not in shown
