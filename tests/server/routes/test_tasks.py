"""Tasks over HTTP: status, events, cancelling."""

import asyncio
from typing import Any

import pytest

from penstock.core.events.events import NoteEmitted
from penstock.models.scripted import ScriptedModel, call, say, spend
from penstock.store.projections import Page
from penstock.tools.invocation import Invocation
from tests.kit.server import CHAT, frames, served
from tests.kit.tools import Act, calling

STREAM = {"accept": "text/event-stream"}


async def test_a_succeeded_task_has_its_times_and_usage() -> None:
    model = ScriptedModel([call("add"), say("Three.")])
    async with served(model=model, tools=[Act("add")]) as server:
        response = await server.say("Sum?")
        task = (await server.client.get(f"/api/tasks/{response.headers['x-task-id']}")).json()
    assert task["conversationId"] == response.headers["x-conversation-id"]
    assert (task["kind"], task["status"], task["agentId"]) == ("message", "succeeded", "assistant")
    assert (task["iterations"], task["usage"]["toolCalls"], task["questions"]) == (2, 1, [])
    assert task["createdAt"] <= task["startedAt"] <= task["endedAt"]
    assert "error" not in task


async def test_a_waiting_task_has_its_questions_and_can_be_cancelled() -> None:
    model = ScriptedModel([call("mail")])
    async with served(model=model, tools=[Act("mail", requires_approval=True)]) as server:
        parked = (await server.say("Mail")).json()
        task = (await server.client.get(f"/api/tasks/{parked['taskId']}")).json()
        assert (task["status"], task["endedAt"], task["iterations"]) == ("suspended", None, 1)
        assert task["questions"] == [parked["suspended"]["questions"][0]["id"]]
        cancelled = await server.client.post(f"/api/tasks/{parked['taskId']}/cancel")
        assert cancelled.status_code == 202
        assert cancelled.json()["id"] == parked["taskId"]
        await server.runtime.requests.wait(parked["taskId"])
        task = (await server.client.get(f"/api/tasks/{parked['taskId']}")).json()
        assert (task["status"], task["error"]["code"]) == ("cancelled", "CANCELLED")


@pytest.mark.parametrize(("price", "shown"), [(0.5, 0.5), (None, None)])
async def test_a_waiting_task_reports_its_cost_so_far(
    price: float | None, shown: float | None
) -> None:
    """None if a model has no price, and only then."""
    model = ScriptedModel([spend(10, 10, price) + call("mail")])
    async with served(model=model, tools=[Act("mail", requires_approval=True)]) as server:
        parked = (await server.say("Mail")).json()
        task = (await server.client.get(f"/api/tasks/{parked['taskId']}")).json()
        assert task["usage"]["costUsd"] == shown


async def test_a_direct_call_has_its_envelope() -> None:
    async with served(tools=[Act("add", direct_call=True)]) as server:
        await server.runtime.call("add", {})
        tasks, _ = await server.runtime.parts.storage.projections.tasks(page=Page())
        task = (await server.client.get(f"/api/tasks/{tasks[0].task_id}")).json()
    assert task["result"] == {"status": "success", "output": {"done": "add"}}
    assert (task["kind"], task["conversationId"]) == ("call", None)


async def test_events_are_paged_with_those_of_nested_calls() -> None:
    model = ScriptedModel([call("outer"), say("Done.")])
    tools = [Act("outer", calling("inner")), Act("inner", direct_call=True)]
    async with served(model=model, tools=tools) as server:
        response = await server.say("Go")
        url = f"/api/tasks/{response.headers['x-task-id']}/events"
        body = (await server.client.get(url)).json()
        kinds = [each["kind"] for each in body["events"]]
        assert kinds[:3] == ["message_received", "task_started", "reply_received"]
        assert kinds.count("call_settled") == 2
        assert kinds[-1] == "task_ended"
        assert body["meta"] == {"limit": 50, "hasMore": False}
        nested = next(each for each in body["events"] if each["kind"] == "call_settled")
        assert nested["path"].count("#") == 2
        page = (await server.client.get(url, params={"limit": 2})).json()
        assert page["meta"]["hasMore"] is True
        after = page["events"][-1]["seq"]
        rest = (await server.client.get(url, params={"after": after})).json()
        assert page["events"] + rest["events"] == body["events"]


async def test_events_can_be_streamed() -> None:
    async with served() as server:
        response = await server.say("Hi")
        url = f"/api/tasks/{response.headers['x-task-id']}/events"
        whole = frames((await server.client.get(url, headers=STREAM)).text)
        assert [at for at, _ in whole] == ["2", "3", "4", "5"]
        assert whole[-1][1]["kind"] == "task_ended"
        again = await server.client.get(url, headers=STREAM | {"last-event-id": "4"})
        assert frames(again.text) == whole[3:]
        named = await server.client.get(f"{url}?lastEventId=4", headers=STREAM)
        assert named.text == again.text
        last = frames(again.text)[-1][0]
        for place, more in ((url, {"last-event-id": last}), (f"{url}?lastEventId={last}", {})):
            seen = await server.client.get(place, headers=STREAM | more)
            assert (seen.status_code, seen.content) == (204, b"")
        bad = await server.client.get(url, headers=STREAM | {"last-event-id": "99"})
        assert bad.json()["error"]["code"] == "BAD_LAST_EVENT_ID"


async def test_a_stream_of_events_ends_with_its_task_even_if_erased() -> None:
    """Chat API 11.3: "the same live, [...] ends with the task"; an erasing is noted behind it."""
    async with served() as server:
        body = (await server.say("Hi")).json()["assistantMessage"]
        await server.client.delete(f"{CHAT}/messages/{body['id']}")
        url = f"/api/tasks/{body['metadata']['taskId']}/events"
        whole = await asyncio.wait_for(server.client.get(url, headers=STREAM), 5)
    assert [each["kind"] for _, each in frames(whole.text)][-2:] == [
        "task_ended",
        "messages_erased",
    ]


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/cancel"), ("GET", "/events")])
async def test_an_unknown_task_is_not_found(method: str, path: str) -> None:
    async with served() as server:
        response = await server.client.request(method, f"/api/tasks/task_none{path}")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("extra", [-1, 0, 1])
async def test_a_page_of_events_reports_whether_more_follow(
    extra: int,
) -> None:
    """Around 200 events, which is the largest page, and also what the log is read in."""

    async def tell(input: Any, invocation: Invocation) -> Any:
        for number in range(200 + extra - 6):
            invocation.note(NoteEmitted(event_type="told", message=str(number)))
        return 1

    model = ScriptedModel([call("tell"), say("Done.")])
    async with served(model=model, tools=[Act("tell", tell)]) as server:
        response = await server.say("Go")
        url = f"/api/tasks/{response.headers['x-task-id']}/events"
        body = (await server.client.get(url, params={"limit": 200})).json()
        after = body["events"][-1]["seq"]
        rest = (await server.client.get(url, params={"limit": 200, "after": after})).json()
    every = body["events"] + rest["events"]
    assert len(every) == 200 + extra
    assert body["meta"] == {"limit": 200, "hasMore": extra > 0}
    assert every[-1]["kind"] == "task_ended"
    assert sum(each["kind"] == "note_emitted" for each in every) == 200 + extra - 6


async def test_the_events_of_a_waiting_task_end_where_it_waits() -> None:
    model = ScriptedModel([call("mail")])
    async with served(model=model, tools=[Act("mail", requires_approval=True)]) as server:
        parked = (await server.say("Mail")).json()
        body = (await server.client.get(f"/api/tasks/{parked['taskId']}/events")).json()
    assert body["events"][-1]["kind"] == "task_suspended"
    assert body["meta"]["hasMore"] is False


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "after=-1", "after=9007199254740993"])
async def test_a_page_of_events_outside_its_bounds_is_refused(query: str) -> None:
    async with served() as server:
        response = await server.say("Hi")
        url = f"/api/tasks/{response.headers['x-task-id']}/events"
        assert (await server.client.get(f"{url}?{query}")).status_code == 400
        far = await server.client.get(f"{url}?limit=1&after=9007199254740992")
    assert (far.status_code, far.json()["events"]) == (200, [])
