"""The page at `/` shows questions of flow runs: its scripts, with answers of a real server."""

from pathlib import Path
from typing import Any

import pytest

from penstock.chat.wire_forms import blocked_part
from penstock.core.task import Missing, MissingKind
from tests.kit.flow_server import flow_server
from tests.kit.page import run_page
from tests.kit.server import CHAT, InMemoryServer, frames, served

RECALL = """
import {{ newView, recall }} from "{folder}/view.js";
const view = newView();
for (const message of {given}) recall(view, message);
console.log(JSON.stringify({{ texts: view.items.map((each) => each.text) }}));
"""


async def look(server: InMemoryServer, run_id: str, *question_ids: str) -> dict[str, Any]:
    """Return what the API says of a run and its questions, by the path that the page asks for."""
    paths = [f"api/tasks/{run_id}", *(f"api/questions/{each}" for each in question_ids)]
    return {path: (await server.client.get(f"/{path}")).json() for path in paths}


@pytest.mark.programs
@pytest.mark.slow("starts deno")
async def test_a_chat_that_waits_for_a_run_shows_its_question_until_it_is_answered(
    tmp_path: Path,
) -> None:
    """The stream says `{"type":"suspended","questions":[],"runs":[…]}`."""
    async with flow_server(tmp_path / "project") as server:
        streamed = await server.client.post(CHAT, json={"content": "/dom:asks", "stream": True})
        result = frames(streamed.text)
        (run_id,), questions = result[-1][1]["runs"], result[-1][1]["questions"]
        (asked,) = (await server.client.get("/api/questions?status=open")).json()["questions"]
        before = await look(server, run_id, asked["id"])
        url = f"/api/questions/{asked['id']}/answer"
        assert (await server.client.post(url, json={"value": "Go"})).status_code == 200
        after = await look(server, run_id, asked["id"])
    assert (result[-1][1]["type"], questions) == ("suspended", [])
    seen = run_page(tmp_path, {"said": result, "looks": [before, before, after]})
    assert seen["state"] == "waiting"
    first, again, last = (
        {each["kind"]: each for each in items if each["kind"] in {"question", "call"}}
        for items in seen["shown"]
    )
    assert first == again
    assert (first["question"]["text"], first["question"]["status"]) == ("Go on?", "open")
    assert [each["label"] for each in first["question"]["options"]] == ["Go", "Stop"]
    assert (first["question"]["asks"], first["call"]["waits"]) == ("fork", True)
    assert (last["question"]["status"], last["question"]["answer"]) == ("answered", {"value": "Go"})
    assert last["call"]["waits"] is False


@pytest.mark.programs
@pytest.mark.slow("starts deno")
async def test_an_answer_shows_the_cost_of_its_flow_run_page(tmp_path: Path) -> None:
    """The chat itself asked no model: it showed 0 tokens."""
    async with flow_server(tmp_path / "project") as server:
        streamed = await server.client.post(CHAT, json={"content": "/look", "stream": True})
    chat_frames = frames(streamed.text)
    (result,) = (frame for _, frame in chat_frames if frame["type"] == "tool_result")
    spent = result["result"]["output"]["usage"]
    ((*_, end),) = run_page(tmp_path, {"said": chat_frames, "looks": [{}]})["shown"]
    assert spent["modelCalls"] == 1
    assert end["kind"] == "end"
    assert {key: end["usage"][key] for key in spent} == spent | {"toolCalls": 1}


@pytest.mark.programs
@pytest.mark.slow("starts deno")
def test_questions_of_nested_runs_are_shown(tmp_path: Path) -> None:
    chat_frames = [["6", {"type": "suspended", "taskId": "t", "questions": [], "runs": ["outer"]}]]
    question = {"id": "q", "kind": "ask_user", "text": "Where to?", "status": "open"}
    answers = {
        "api/tasks/outer": {"questions": [], "runs": ["inner", "outer"]},
        "api/tasks/inner": {"questions": ["q"], "runs": []},
        "api/questions/q": question,
    }
    (items,) = run_page(tmp_path, {"said": chat_frames, "looks": [answers]})["shown"]
    assert [(each["asks"], each["text"]) for each in items] == [("ask_user", "Where to?")]


@pytest.mark.programs
@pytest.mark.slow("starts deno")
@pytest.mark.parametrize(
    ("end", "became"),
    [
        ({"type": "message_complete", "content": "Done."}, "answered"),
        ({"type": "error", "code": "CANCELLED", "message": "stopped"}, "cancelled"),
    ],
)
def test_the_page_shows_the_status_of_a_question_from_the_server(
    tmp_path: Path, end: dict[str, Any], became: str
) -> None:
    """Another person answered it, and the task continued before the page polled again."""
    chat_frames = [["6", {"type": "suspended", "taskId": "t", "questions": [], "runs": ["r"]}]]
    question = {"id": "q", "kind": "ask_user", "text": "Where to?"}
    before = {
        "api/tasks/r": {"questions": ["q"], "runs": []},
        "api/questions/q": question | {"status": "open"},
    }
    after = {
        "api/tasks/r": {"questions": [], "runs": []},
        "api/questions/q": question | {"status": became, "answer": {"value": "Rome"}},
    }
    fields = {"said": chat_frames, "looks": [before, after], "end": ["9", end]}
    (_, items) = run_page(tmp_path, fields)["shown"]
    assert (items[0]["status"], items[0]["answer"]) == (became, {"value": "Rome"})


@pytest.mark.programs
@pytest.mark.slow("starts deno")
def test_a_blocked_chat_shows_the_missing_agent(tmp_path: Path) -> None:
    why = blocked_part([Missing(MissingKind.AGENT, "clerk")])
    items = [["6", {"type": "suspended", "taskId": "t", "questions": []} | why]]
    seen = run_page(tmp_path, {"said": items, "looks": [{}]})
    ((shown,),) = seen["shown"]
    assert seen["state"] == "waiting"
    assert (shown["kind"], shown["code"]) == ("error", "BLOCKED")
    assert shown["message"].startswith("the task is blocked: agent 'clerk' is missing")


@pytest.mark.programs
@pytest.mark.slow("starts deno")
async def test_a_message_of_the_history_names_its_files(tmp_path: Path) -> None:
    async with served() as server:
        files = [{"data": "aGk=", "name": "a.txt"}, {"data": "aGk="}]
        await server.say("Hi", attachments=files)
        await server.client.post(CHAT, json={"attachments": files[:1]})
        messages = []
        for each in (await server.client.get(f"{CHAT}/conversations")).json()["conversations"]:
            shown = await server.client.get(CHAT, params={"conversationId": each["id"]})
            messages += [each for each in shown.json()["messages"] if each["role"] == "user"]
    texts = run_page(tmp_path, messages, RECALL)["texts"]
    assert sorted(texts) == ["Hi\n[a.txt]\n[text/plain]", "[a.txt]"]
