"""Schedules over HTTP."""

from typing import Any

import httpx2
import pytest

from penstock.core.clock import to_iso
from penstock.core.errors import InvalidRequest
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import START, FakeClock
from penstock.tools.python.function import tool
from tests.kit.schedules import MINUTE
from tests.kit.server import CHAT, InMemoryServer, served, use_key

URL = "/api/agents/assistant/schedules"
NEWS: dict[str, Any] = {
    "name": "Morning news",
    "type": "cron",
    "cron_expression": "0 8 * * MON-FRI",
    "timezone": "Europe/Berlin",
    "callback_type": "message",
    "input": {"content": "What is new?", "conversation": "same"},
}


@tool(effect="read", direct_call=True)
def look(place: str) -> str:
    """Look at a place."""
    return f"seen {place}"


async def created(server: InMemoryServer, **more: Any) -> dict[str, Any]:
    answer = await server.client.post(URL, json=NEWS | more)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def fields(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [each["field"] for each in answer.json()["error"]["details"]]


async def test_a_schedule_is_created_read_and_deleted() -> None:
    async with served(clock=FakeClock()) as server:
        schedule = await created(server)
        assert {key: schedule[key] for key in NEWS} == NEWS
        assert schedule["callback_id"] == "assistant"
        assert schedule["conversation_id"].startswith("conv_")
        assert (schedule["status"], schedule["concurrency"]) == ("active", "forbid")
        assert schedule["next_run"] == "2026-11-23T07:00:00.000Z"
        assert schedule["next_runs"][1:] == ["2026-11-24T07:00:00.000Z", "2026-11-25T07:00:00.000Z"]
        assert schedule["created_at"] == to_iso(START)
        place = f"{URL}/{schedule['id']}"
        assert (await server.client.get(place)).json() == schedule
        assert (await server.client.delete(place)).status_code == 204
        assert (await server.client.get(place)).status_code == 404
        assert (await server.client.delete(place)).status_code == 404


async def test_schedules_are_listed_with_filters_and_pages() -> None:
    async with served(clock=FakeClock()) as server:
        await created(server, name="A")
        await created(server, name="B", status="paused")
        once = {"type": "delayed", "cron_expression": None, "delay_seconds": 60}
        await created(server, name="C", **once)
        for query, names in [
            ({}, "CBA"),
            ({"status": "paused"}, "B"),
            ({"type": "delayed"}, "C"),
            ({"search": "a"}, "A"),
            ({"sort": "name"}, "ABC"),
            ({"sort": "next_run"}, "CAB"),
            ({"sort": "name", "order": "desc", "limit": "2"}, "CB"),
            ({"sort": "name", "offset": "2"}, "C"),
        ]:
            answer = (await server.client.get(URL, params=query)).json()
            found = "".join(each["name"] for each in answer["schedules"])
            assert sorted(found) == sorted(names), query
            assert found == names or "sort" not in query
        answer = (await server.client.get(URL, params={"offset": "2"})).json()
        assert answer["meta"] == {"total": 3, "limit": 50, "offset": 2}
        assert (await server.client.get(URL, params={"status": "late"})).status_code == 400
        assert fields(await server.client.get(URL, params={"sort": "cron"})) == ["/sort"]
        assert (await server.client.get("/api/agents/poet/schedules")).status_code == 404


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"name": None}, ["/name"]),
        ({"cron_expression": "0 8 31 2 *"}, ["/cron_expression"]),
        ({"timezone": "Europe/Berln"}, ["/timezone"]),
        ({"type": "once"}, ["/type"]),
        ({"type": "sometimes"}, ["/type"]),
        ({"type": None, "cron_expression": None}, ["/cron_expression"]),
        ({"type": None, "cron_expression": None, "next_run": "tomorrow"}, ["/next_run"]),
        (
            {"type": None, "cron_expression": None, "next_run": "2026-11-21T08:00:00Z"},
            ["/next_run"],
        ),
        ({"type": None, "cron_expression": None, "next_run": "2030-01-01T08:00"}, ["/next_run"]),
        ({"callback_id": "poet"}, ["/callback_id"]),
        ({"callback_type": "workflow", "callback_id": "trip"}, ["/callback_id"]),
        ({"callback_type": "function", "callback_id": "lok"}, ["/callback_id"]),
        ({"callback_type": "function", "callback_id": "look", "input": {}}, ["/input/place"]),
        ({"callback_type": "function", "callback_id": "hide", "input": {}}, ["/callback_id"]),
        ({"callback_type": "email"}, ["/callback_type"]),
        ({"input": {}}, ["/input/content"]),
        ({"input": {"content": "x", "text": "y"}}, ["/input/text"]),
        ({"crn_expression": "x"}, ["/crn_expression"]),
        ({"suspension_timeout": {"seconds": 0, "resume_prompt": " "}}, None),
    ],
)
async def test_each_mistake_is_a_422_that_names_the_field(
    more: dict[str, Any], wrong: list[str] | None
) -> None:
    @tool
    def hide() -> str:
        """Hide."""
        return ""

    async with served(clock=FakeClock(), tools=[look, hide]) as server:
        found = fields(await server.client.post(URL, json=NEWS | more))
        both = ["/suspension_timeout/seconds", "/suspension_timeout/resume_prompt"]
        assert found == (both if wrong is None else wrong)
        assert (await server.client.get(URL)).json()["meta"]["total"] == 0


async def test_a_change_merges_and_computes_the_next_time_only_if_the_time_changes() -> None:
    clock = FakeClock()
    async with served(clock=clock) as server:
        schedule = await created(server, cron_expression="0 * * * *")
        place = f"{URL}/{schedule['id']}"
        clock.advance(1800)
        renamed = (await server.client.put(place, json={"name": "News"})).json()
        assert (renamed["name"], renamed["next_run"]) == ("News", schedule["next_run"])
        moved = (await server.client.put(place, json={"cron_expression": "@daily"})).json()
        assert (moved["cron_expression"], moved["timezone"]) == ("@daily", "Europe/Berlin")
        assert moved["next_run"] == "2026-11-21T23:00:00.000Z"
        utc = (await server.client.put(place, json={"timezone": None})).json()
        assert (utc["timezone"], utc["next_run"]) == ("UTC", "2026-11-22T00:00:00.000Z")
        once = (await server.client.put(place, json={"delay_seconds": 60})).json()
        assert (once["type"], once["cron_expression"]) == ("delayed", None)
        assert once["next_run"] == to_iso(START + 31 * MINUTE)  # type: ignore[arg-type]
        assert fields(await server.client.put(place, json={"input": {}})) == ["/input/content"]


async def test_a_schedule_is_paused_and_resumed() -> None:
    clock = FakeClock()
    async with served(clock=clock) as server:
        schedule = await created(server, cron_expression="0 * * * *")
        place = f"{URL}/{schedule['id']}"
        paused = (await server.client.put(place, json={"status": "paused"})).json()
        assert (paused["status"], paused["next_runs"]) == ("paused", [])
        clock.advance(7200)
        resumed = (await server.client.put(place, json={"status": "active"})).json()
        assert (resumed["status"], resumed["missed"]) == ("active", 0)
        assert resumed["next_run"] == "2026-11-21T12:00:00.000Z"


async def test_a_run_now_starts_a_task_and_moves_no_due_time() -> None:
    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel({"": [call("pay"), say("Done.")]})
    async with served(clock=FakeClock(), model=model, tools=[pay]) as server:
        schedule = await created(server)
        place = f"{URL}/{schedule['id']}"
        ran = await server.client.post(f"{place}/run")
        assert ran.status_code == 202
        await server.runtime.parts.engine.launcher.rest()
        after = (await server.client.get(place)).json()
        assert (after["last_task_id"], after["last_status"]) == (ran.json()["task_id"], "suspended")
        assert after["next_run"] == schedule["next_run"]
        again = await server.client.post(f"{place}/run")
        assert (again.status_code, again.json()["error"]["code"]) == (409, "SCHEDULE_BUSY")
        await server.client.put(place, json={"concurrency": "allow"})
        assert (await server.client.post(f"{place}/run")).status_code == 202


async def test_answers_are_messages_of_the_conversation_that_the_schedule_names() -> None:
    async with served(clock=FakeClock()) as server:
        said = (await server.say("Hi")).json()
        conversation = said["userMessage"]["conversationId"]
        given = {"content": "What is new?", "conversation": conversation}
        schedule = await created(server, input=given)
        await server.client.post(f"{URL}/{schedule['id']}/run")
        await server.runtime.parts.engine.launcher.rest()
        history = await server.client.get(CHAT, params={"conversationId": conversation})
        assert [each["content"] for each in history.json()["messages"]] == [
            *("Hi", "Hello.", "What is new?", "Hello.")
        ]
        unknown = {"content": "Hi", "conversation": "conv_other"}
        refused = await server.client.post(URL, json=NEWS | {"input": unknown})
        assert refused.status_code == 404


@pytest.mark.parametrize(
    ("permissions", "statuses"),
    [
        (("chat",), (403, 403, 403, 403, 403, 403)),
        (("read",), (200, 403, 404, 403, 403, 403)),
        (("read", "manage"), (200, 201, 200, 200, 202, 204)),
    ],
)
async def test_reading_needs_read_and_everything_else_manage(
    permissions: tuple[str, ...], statuses: tuple[int, ...]
) -> None:
    async with served(clock=FakeClock()) as server:
        await use_key(server, "boss", "manage")
        place = f"{URL}/{(await created(server))['id']}"
        await use_key(server, "ann", *permissions)
        answers = [
            await server.client.get(URL),
            await server.client.post(URL, json=NEWS),
            await server.client.get(place),
            await server.client.put(place, json={"name": "Mine"}),
            await server.client.post(f"{place}/run"),
            await server.client.delete(place),
        ]
        assert tuple(each.status_code for each in answers) == statuses
        shown = answers[0].json().get("schedules", [])
        assert len(shown) == ("manage" in permissions)  # those of others hold their messages


async def test_who_changes_what_runs_becomes_the_owner() -> None:
    """Otherwise a key with `manage` could act with the permissions of the first owner."""
    async with served(clock=FakeClock(), tools=[look]) as server:
        await use_key(server, "boss", "manage")
        place = f"{URL}/{(await created(server))['id']}"
        await use_key(server, "ann", "manage")
        changes = ({"name": "N"}, {"input": {"content": "Send me the vault."}})
        for change, owner in zip(changes, ("boss", "ann"), strict=True):
            await server.client.put(place, json=change)
            task_id = (await server.client.post(f"{place}/run")).json()["task_id"]
            task = await server.runtime.parts.storage.projections.find_task(task_id)
            assert task is not None
            assert task.profile_id == owner
            await server.runtime.parts.engine.launcher.rest()


async def test_a_time_zone_that_is_gone_is_named_and_stops_no_list() -> None:
    """An update of the system removed it: the schedule is listed with the reason."""
    async with served(clock=FakeClock()) as server:
        lost, other = await created(server), await created(server, name="Other")
        rows, place = server.database_parts.schedules, f"{URL}/{lost['id']}"
        await rows.change(lost["id"], {"timezone": "Mars/Base"})
        listed = (await server.client.get(URL)).json()["schedules"]
        shown = {each["id"]: each for each in listed}
        assert "'Mars/Base'" in shown[lost["id"]]["reason"]
        assert shown[lost["id"]]["next_runs"] == [lost["next_run"]]
        assert shown[other["id"]] == other
        assert (await server.client.get(place)).json() == shown[lost["id"]]
        paused = await server.client.put(place, json={"status": "paused"})
        assert paused.json()["status"] == "paused"
        resumed = await server.client.put(place, json={"status": "active"})
        assert fields(resumed) == ["/timezone"]
        with pytest.raises(InvalidRequest, match="Mars/Base"):
            await server.runtime.schedules.resume(lost["id"])
        moved = await server.client.put(place, json={"timezone": "UTC", "status": "active"})
        assert (moved.json()["status"], moved.json()["reason"]) == ("active", None)
