"""A damaged log affects no other: every list still shows all others."""

import asyncio
import logging
import shutil
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, text

from penstock.chat.requests import NewCall
from penstock.core.ids import SessionId
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.projections import Page
from penstock.store.repair import gaps, read_back
from tests.kit.flow_server import flow_server
from tests.kit.server import CHAT, InMemoryServer, served
from tests.kit.tools import Act

pytestmark = pytest.mark.chaos
LOST = "UPDATE events SET body = '', blob_id = 'blob_0000' WHERE log_id = :log"
DAMAGES = {
    "no JSON": ["UPDATE events SET body = '{bro' WHERE log_id = :log"],
    "cut short": ["UPDATE events SET body = substr(body, 1, length(body) - 9) WHERE log_id = :log"],
    "an unknown kind": ["UPDATE events SET kind = 'of_tomorrow' WHERE log_id = :log"],
    "a wrong type": ["UPDATE events SET body = '[1]' WHERE log_id = :log"],
    "a wrong field": ["UPDATE events SET body = '{\"status\": 7}' WHERE log_id = :log"],
    "another kind": ["UPDATE events SET kind = 'task_resumed', body = '{}' WHERE log_id = :log"],
    "no UTF-8": ["UPDATE events SET body = CAST(x'7bff7d' AS TEXT) WHERE log_id = :log"],
    "a lost body": [LOST],
    "a gap": ["DELETE FROM events WHERE log_id = :log AND seq % 2 = 0"],
    "the other gap": ["DELETE FROM events WHERE log_id = :log AND seq % 2 = 1"],
    "no end": [
        """DELETE FROM events WHERE log_id = :log
           AND seq = (SELECT max(seq) FROM events WHERE log_id = :log)"""
    ],
    "nothing left": ["DELETE FROM events WHERE log_id = :log"],
    "twice": [
        """INSERT INTO events (log_id, seq, at, task_id, path, kind, body, blob_id)
           SELECT log_id, seq + (SELECT head FROM logs WHERE log_id = :log), at, task_id, path,
           kind, body, blob_id FROM events WHERE log_id = :log""",
        "UPDATE logs SET head = head * 2 WHERE log_id = :log",
    ],
    "an odd status": [
        "UPDATE tasks SET status = 'odd' WHERE log_id = :log",
        "UPDATE questions SET status = 'odd' WHERE log_id = :log",
    ],
    "a title that is no UTF-8": [
        "UPDATE sessions SET title = CAST(x'ff' AS TEXT) WHERE session_id = :log"
    ],
}
READS_BACK = {"twice", "an odd status", "a title that is no UTF-8", "another kind"}
"""Damages after which every event reads back."""
SHOWS_THE_QUESTION = {"twice", "a title that is no UTF-8", "a gap", "no end"}
"""Damages after which the event that asks reads back."""
METRICS = "/api/agents/assistant/tools/metrics"
ASKS, LOOKS = "/api/flows/dom:asks/runs", "/api/flows/look/runs"
STANDING = {ASKS: {None, "suspended"}, LOOKS: {None, "success"}}
"""The status with which the intact run is listed."""
Made = TypeVar("Made")
Kept = tuple[Path, list[Made]]
"""A folder with a database, and the ids of what is in it."""


def copied(kept: Kept[Made], place: Path) -> list[Made]:
    """Copy a folder to another place; returns the ids of what is in it."""
    folder, made = kept
    shutil.copytree(folder, place, dirs_exist_ok=True)
    return made


def do(statement: str, log_id: str, connection: Connection) -> None:
    connection.execute(text(statement), {"log": log_id})


async def damage(url: str, name: str, *log_ids: str) -> None:
    """Damage logs. `doctor` names them and no other, unless what is there still reads back."""
    database = await open_database(url)
    for log_id in log_ids:
        for statement in DAMAGES[name]:
            await database.write(partial(do, statement, log_id))
    named = [*(await read_back(database, open_blobs("memory:///")))[1], *await gaps(database)]
    values = {log_id for log_id in log_ids if any(log_id in each for each in named)}
    assert values == (set() if name in READS_BACK else set(log_ids))
    assert all(any(log_id in each for log_id in log_ids) for each in named)
    await database.close()


async def listed(server: InMemoryServer, path: str, **query: Any) -> list[str]:
    """Return the ids in a list."""
    response = await server.client.get(path, params=query)
    assert response.status_code == 200, f"{path}: {response.text}"
    (name,) = set(response.json()) - {"meta"}
    return [each.get("id") or each["runId"] for each in response.json()[name]]


def opened(url: str) -> Any:
    """Serve two tools, one of which waits for a person."""
    model = ScriptedModel(
        {"Add": [call("add"), say("Added.")], "Mail": [call("mail"), say("Sent.")]}
    )
    tools = [Act("add"), Act("mail", requires_approval=True, direct_call=True)]
    return served(url=url, model=model, tools=tools)


async def two_conversations(folder: Path) -> list[tuple[str, str]]:
    """Have two conversations that wait for a person; returns their ids and questions."""
    kept = []
    async with opened(f"sqlite:///{folder}/a.db") as server:
        for _ in range(2):
            conversation = (await server.say("Add")).headers["x-conversation-id"]
            parked = (await server.say("Mail", conversationId=conversation)).json()
            kept.append((conversation, parked["suspended"]["questions"][0]["id"]))
    return kept


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Kept[tuple[str, str]]:
    """Make the conversations once: each test damages a copy."""
    folder = tmp_path_factory.mktemp("conversations")
    return folder, asyncio.run(two_conversations(folder))


@pytest.mark.parametrize("name", DAMAGES)
async def test_a_damaged_conversation_affects_no_other(
    name: str, conversations: Kept[tuple[str, str]], tmp_path: Path
) -> None:
    (broken, its_question), (whole, question) = copied(conversations, tmp_path)
    url = f"sqlite:///{tmp_path}/a.db"
    await damage(url, name, broken)
    async with opened(url) as server:
        for query in ({}, {"status": "open"}, {"conversationId": whole}):
            ids = await listed(server, "/api/questions", **query)
            assert question in ids
            assert its_question not in ids or name in SHOWS_THE_QUESTION
        assert whole in await listed(server, f"{CHAT}/conversations")
        assert (await server.client.get(f"{METRICS}")).json()["metrics"]
        shown = await server.client.get(CHAT, params={"conversationId": broken})
        asked = await server.client.get(f"/api/questions/{its_question}")
        assert {shown.status_code, asked.status_code} <= {200, 404, 503}
        if name != "an odd status":  # it would wait for its turn behind the question
            sent = await server.say("Add", conversationId=broken)
            assert sent.status_code in {200, 409, 503}
        answer = f"/api/questions/{question}/answer"
        done = await server.client.post(answer, json={"decision": "approve"})
        assert done.status_code == 200, done.text
        assert (await server.say("Add")).status_code == 200
        deleted = await server.client.delete(f"{CHAT}/conversations/{broken}")
        assert deleted.status_code == 204, deleted.text
        assert broken not in await listed(server, f"{CHAT}/conversations")
        assert its_question not in await listed(server, "/api/questions")


LOSSES = {
    "the first": "DELETE FROM events WHERE log_id = :log AND seq = 1",
    "the second": "DELETE FROM events WHERE log_id = :log AND seq = 2",
    "the last but one": """DELETE FROM events WHERE log_id = :log
        AND seq = (SELECT head - 1 FROM logs WHERE log_id = :log)""",
    "the last": """DELETE FROM events WHERE log_id = :log
        AND seq = (SELECT head FROM logs WHERE log_id = :log)""",
}


@pytest.mark.parametrize("lost", LOSSES)
async def test_a_history_with_a_missing_event_is_not_shown(
    lost: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    async with opened(url) as server:
        broken, whole = [(await server.say("Add")).headers["x-conversation-id"] for _ in "12"]
    database = await open_database(url)
    await database.write(partial(do, LOSSES[lost], broken))
    await database.close()
    async with opened(url) as server:
        shown = await server.client.get(CHAT, params={"conversationId": broken})
        assert shown.status_code == 503
        assert f"of log {broken!r} is missing" in caplog.text
        shown = await server.client.get(CHAT, params={"conversationId": whole})
        assert [each["role"] for each in shown.json()["messages"]] == ["user", "assistant"]


async def three_tasks(url: str) -> str:
    """Have a conversation with a message, a call and a message; between them nothing is shown."""
    async with opened(url) as server:
        conversation: str = (await server.say("Add")).headers["x-conversation-id"]
        call_of = NewCall(tool_id="mail", input={}, session_id=SessionId(conversation))
        task_id = await server.runtime.start_call(call_of)
        await server.runtime.requests.cancel(task_id)
        await server.runtime.requests.wait(task_id)
        await server.say("Add", conversationId=conversation)
    return conversation


LOSE_BETWEEN = [
    """DELETE FROM events WHERE log_id = :log
       AND seq = (SELECT first_seq FROM tasks WHERE log_id = :log AND kind = 'call')""",
    """DELETE FROM events WHERE log_id = :log
       AND seq = (SELECT ended_seq FROM tasks WHERE log_id = :log AND kind = 'call')""",
]


@pytest.mark.parametrize("lose", LOSE_BETWEEN, ids=["its request", "its end"])
async def test_a_lost_event_between_two_tasks_of_a_history_is_noticed(
    lose: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A history shows no direct calls, so it never reads their events."""
    url = f"sqlite:///{tmp_path}/a.db"
    conversation = await three_tasks(url)
    database = await open_database(url)
    await database.write(partial(do, lose, conversation))
    await database.close()
    async with opened(url) as server:
        shown = await server.client.get(CHAT, params={"conversationId": conversation})
        assert shown.status_code == 503
        assert f"of log {conversation!r} is missing" in caplog.text


TASK_ROUTES = ["", "/events"]


@pytest.mark.parametrize("path", TASK_ROUTES)
@pytest.mark.parametrize("lost", ["the last but one", "the last"])
async def test_a_task_with_a_missing_event_is_reported(
    path: str, lost: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    async with opened(url) as server:
        task = (await server.say("Mail")).json()
    database = await open_database(url)
    await database.write(partial(do, LOSSES[lost], task["conversationId"]))
    await database.close()
    async with opened(url) as server:
        answer = await server.client.get(f"/api/tasks/{task['taskId']}{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "NOT_READY")
        again = {"Idempotency-Key": "k"}
        sent = await server.client.post(
            CHAT, json={"content": "Mail", "conversationId": task["conversationId"]}, headers=again
        )
        assert sent.status_code in {409, 503}


@pytest.mark.parametrize("lost", LOSSES)
async def test_cancelling_a_task_in_a_damaged_log_is_refused(lost: str, tmp_path: Path) -> None:
    """It was 202, and nothing came of it. The log can be deleted."""
    url = f"sqlite:///{tmp_path}/a.db"
    async with opened(url) as server:
        task = (await server.say("Mail")).json()
    conversation = task["conversationId"]
    database = await open_database(url)
    await database.write(partial(do, LOSSES[lost], conversation))
    await database.close()
    async with opened(url) as server:
        answer = await server.client.post(f"/api/tasks/{task['taskId']}/cancel")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "NOT_READY")
        assert f"penstock erase --log {conversation} --yes" in answer.json()["error"]["message"]
        gone = await server.client.delete(f"{CHAT}/conversations/{conversation}")
        assert gone.status_code == 204
        assert (await server.client.get(f"/api/tasks/{task['taskId']}")).status_code == 404


@pytest.mark.slow("opens a project twice")
async def test_aborting_a_run_in_a_damaged_log_is_refused(tmp_path: Path) -> None:
    runs = "/api/flows/dom:asks/runs"
    async with flow_server(tmp_path) as server:
        run = (await server.client.post(f"{runs}?wait=60", json={})).headers["x-task-id"]
    database = await open_database(f"sqlite:///{tmp_path}/.penstock/penstock.db")
    await database.write(partial(do, LOSSES["the second"], run))
    await database.close()
    async with flow_server(tmp_path) as server:
        answer = await server.client.post(f"{runs}/{run}/abort")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "NOT_READY")
        assert f"penstock erase --log {run} --yes" in answer.json()["error"]["message"]


async def four_runs(folder: Path) -> list[str]:
    """Start two runs that wait for a person and two that end; returns their ids."""
    async with flow_server(folder) as server:
        return [
            (await server.client.post(f"{path}?wait=60", json={})).headers["x-task-id"]
            for path in (ASKS, ASKS, LOOKS, LOOKS)
        ]


@pytest.fixture(scope="module")
def runs_of_flows(tmp_path_factory: pytest.TempPathFactory) -> Kept[str]:
    """Make the runs once: each test damages a copy of their project."""
    folder = tmp_path_factory.mktemp("runs")
    return folder, asyncio.run(four_runs(folder))


@pytest.mark.slow("opens a project")
@pytest.mark.parametrize("name", DAMAGES)
async def test_a_damaged_run_affects_no_other(
    name: str, runs_of_flows: Kept[str], tmp_path: Path
) -> None:
    runs = copied(runs_of_flows, tmp_path)
    await damage(f"sqlite:///{tmp_path}/.penstock/penstock.db", name, runs[0], runs[2])
    async with flow_server(tmp_path) as server:
        for path, run in ((ASKS, runs[1]), (LOOKS, runs[3])):
            for query in ({}, {"status": "suspended"}, {"status": "success"}, {"status": "error"}):
                ids = await listed(server, path, **query)
                assert (run in ids) == (query.get("status") in STANDING[path])
        for run in (runs[0], runs[2]):
            for path in (f"{ASKS}/{run}", f"{LOOKS}/{run}", f"/api/tASKS/{run}"):
                assert (await server.client.get(path)).status_code in {200, 404, 503}
        assert runs[1] in [
            question["taskId"]
            for question in (await server.client.get("/api/questions")).json()["questions"]
        ]
        done = (await server.client.post(f"{LOOKS}?wait=60", json={})).json()
        assert done["status"] == "success"


async def test_a_list_reports_what_it_omits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Operators see a warning; a task whose outcome is lost is listed as such."""
    url = f"sqlite:///{tmp_path}/a.db"
    async with opened(url) as server:
        conversation = (await server.say("Add")).headers["x-conversation-id"]
        await server.say("Mail", conversationId=conversation)
    await damage(url, "no JSON", conversation)
    async with opened(url) as server:
        with caplog.at_level(logging.WARNING):
            assert await listed(server, "/api/questions") == []
        tasks, total = await server.runtime.parts.storage.projections.tasks(page=Page())
    assert f"event 11 of log '{conversation}' cannot be read" in caplog.text
    assert [each.status for each in tasks] == ["suspended", "succeeded"]
    assert total == 2
    assert (tasks[1].outcome or {})["error"]["code"] == "STORE_CORRUPT"


@pytest.mark.slow("opens a project twice")
async def test_a_run_whose_start_belongs_to_another_task_is_reported(tmp_path: Path) -> None:
    runs = "/api/flows/look/runs"
    async with flow_server(tmp_path) as server:
        run = (await server.client.post(f"{runs}?wait=60", json={})).headers["x-task-id"]
    moved = "UPDATE events SET task_id = 'other' WHERE log_id = :log AND kind = 'flow_told'"
    database = await open_database(f"sqlite:///{tmp_path}/.penstock/penstock.db")
    await database.write(partial(do, moved, run))
    await database.close()
    async with flow_server(tmp_path) as server:
        shown = await server.client.get(f"{runs}/{run}")
        assert (shown.status_code, shown.json()["error"]["code"]) == (503, "NOT_READY")
