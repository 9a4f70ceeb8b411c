"""Questions over HTTP: lists, answers, and what closes them."""

import asyncio
from itertools import permutations
from typing import Any

import pytest

from penstock.builtins.ask_user import TOOLS
from penstock.core.events.events import QuestionAnswered
from penstock.core.ids import LogId
from penstock.models.scripted import ScriptedModel, call, say
from penstock.tools.invocation import Invocation
from tests.kit.server import InMemoryServer, frames, served
from tests.kit.tools import Act

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}


def asking() -> dict[str, Any]:
    """Return a model that calls `mail`, and the tool, which needs an approval."""
    mail = Act("mail", requires_approval=True, input_schema=SCHEMA)
    model = ScriptedModel({"": [call("mail", to="ann"), say("Sent.")]})
    return {"model": model, "tools": [mail]}


async def asked(server: InMemoryServer) -> str:
    """Let a task wait for an approval, and return the question's id."""
    parked = (await server.say("Mail")).json()
    return str(parked["suspended"]["questions"][0]["id"])


async def answer(server: InMemoryServer, question: str, body: Any) -> tuple[int, Any]:
    """Answer a question; returns the status and the body."""
    response = await server.client.post(f"/api/questions/{question}/answer", json=body)
    return response.status_code, response.json()


async def test_open_questions_are_listed() -> None:
    async with served(**asking()) as server:
        question = await asked(server)
        listed = (await server.client.get("/api/questions", params={"status": "open"})).json()
        assert listed["meta"]["total"] == 1
        (result,) = listed["questions"]
        assert result == (await server.client.get(f"/api/questions/{question}")).json()
        assert result["toolName"] == "mail"
        assert result["arguments"] == {"to": "ann"}
        assert (result["status"], result["agentId"]) == ("open", "assistant")
        for query in ({"agentId": "x"}, {"conversationId": "x"}, {"status": "answered"}):
            other = (await server.client.get("/api/questions", params=query)).json()
            assert other["questions"] == []
        bad = await server.client.get("/api/questions", params={"status": "odd"})
        assert bad.status_code == 400
        wrong = await server.client.get("/api/questions", params={"sort": "text"})
        assert wrong.json()["error"]["details"][0]["field"] == "/sort"


FORMS = [
    ({"type": "confirm"}, {"type": "confirm"}, []),
    (
        {"type": "input", "defaultValue": "tea"},
        {"type": "input", "defaultValue": "tea"},
        [],
    ),
    (
        {"type": "select", "options": ["a", "b"], "multiSelect": True, "allowCustom": True},
        {"type": "select", "multiSelect": True, "allowCustom": True},
        ["a", "b", "Other (describe)"],
    ),
]


@pytest.mark.parametrize(("value", "form", "options"), FORMS)
async def test_a_question_frame_has_all_that_a_client_shows(
    value: dict[str, Any], form: dict[str, Any], options: list[str]
) -> None:
    """A question of a nested call also has a form, which is not in the model's arguments."""

    async def wondering(input: Any, invocation: Invocation) -> Any:
        asked = await invocation.invoke("ask_user", {"question": "Which?"} | value)
        return asked.output

    model = ScriptedModel([call("wonder")])
    tools = [*TOOLS, Act("wonder", wondering)]
    async with served(model=model, tools=tools) as server:
        result = frames((await server.stream("Go")).text)
        (frame,) = [each for _, each in result if each["type"] == "question"]
        assert frame["form"] == form
        assert [each["value"] for each in frame.get("options", [])] == options
        listed = (await server.client.get(f"/api/questions/{frame['id']}")).json()
        assert listed["form"] == form


async def test_the_first_answer_wins() -> None:
    """The same answer again: 200. Another: 409 with the recorded one."""
    async with served(**asking()) as server:
        question = await asked(server)
        status, body = await answer(server, question, {"decision": "approve"})
        assert (status, body["question"]["status"]) == (200, "answered")
        assert body["question"]["answer"] == {"decision": "approve"}
        assert body["question"]["answeredBy"] == "local"
        assert (await answer(server, question, {"decision": "approve"}))[0] == 200
        status, body = await answer(server, question, {"decision": "reject"})
        assert (status, body["error"]["code"]) == (409, "ALREADY_ANSWERED")
        assert body["error"]["details"]["answer"] == {"decision": "approve"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "/decision"),
        ({"decision": "maybe"}, "/decision"),
        ({"decision": "approve", "input": {}}, "/input/to"),
        ({"decision": "approve", "nte": "x"}, "/nte"),
        ([], ""),
        ("approve", ""),
    ],
)
async def test_an_invalid_answer_leaves_the_question_open(body: Any, field: str) -> None:
    async with served(**asking()) as server:
        question = await asked(server)
        status, refusal = await answer(server, question, body)
        assert (status, refusal["error"]["code"]) == (422, "VALIDATION_ERROR")
        assert refusal["error"]["details"][0]["field"] == field
        answer_body = (await server.client.get(f"/api/questions/{question}")).json()
        assert answer_body["status"] == "open"


async def test_a_cancel_closes_the_question() -> None:
    async with served(**asking()) as server:
        question = await asked(server)
        body = (await server.client.get(f"/api/questions/{question}")).json()
        await server.client.post(f"/api/tasks/{body['taskId']}/cancel")
        await server.runtime.requests.wait(body["taskId"])
        status, refusal = await answer(server, question, {"decision": "approve"})
        assert (status, refusal["error"]["code"]) == (409, "QUESTION_CLOSED")


async def test_an_answer_after_a_cancel_is_refused() -> None:
    """Another call still runs, so the task cannot withdraw its question yet."""
    at_work, may_end = asyncio.Event(), asyncio.Event()

    async def stay(input: Any, invocation: Invocation) -> str:
        at_work.set()
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
        return "never"

    mail = Act("mail", requires_approval=True, input_schema=SCHEMA)
    model = ScriptedModel({"": [call("mail", to="ann") + call("stay"), say("Sent.")]})
    async with served(model=model, tools=[mail, Act("stay", stay)]) as server:
        saying = asyncio.ensure_future(server.say("Mail"))
        await at_work.wait()
        (body,) = (await server.client.get("/api/questions")).json()["questions"]
        await server.client.post(f"/api/tasks/{body['taskId']}/cancel")
        status, refusal = await answer(server, body["id"], {"decision": "approve"})
        assert (status, refusal["error"]["code"]) == (409, "QUESTION_CLOSED")
        may_end.set()
        await saying
        closing = await answers_to(server, body["conversationId"])
        assert [each.status for each in closing] == ["cancelled"]
        assert mail.runs == []


@pytest.mark.parametrize("order", list(permutations(["cancel", "approve", "reject"])))
async def test_exactly_one_of_concurrent_events_closes_the_question(order: tuple[str, ...]) -> None:
    async with served(**asking()) as server:
        question = await asked(server)
        body = (await server.client.get(f"/api/questions/{question}")).json()
        sent: dict[str, Any] = {
            "cancel": server.client.post(f"/api/tasks/{body['taskId']}/cancel"),
            "approve": answer(server, question, {"decision": "approve"}),
            "reject": answer(server, question, {"decision": "reject"}),
        }
        result = dict(
            zip(order, await asyncio.gather(*(sent[name] for name in order)), strict=True)
        )
        await server.runtime.requests.wait(body["taskId"])
        (closing,) = await answers_to(server, body["conversationId"])
        answered = (closing.answer or {}).get("decision")
        accepted = [name for name in ("approve", "reject") if result[name][0] == 200]
        assert accepted == ([answered] if closing.by else [])
        refused = {
            result[name][1]["error"]["code"] for name in result if name not in ["cancel", *accepted]
        }
        assert refused == {"ALREADY_ANSWERED" if accepted else "QUESTION_CLOSED"}


async def answers_to(server: InMemoryServer, conversation: str) -> list[QuestionAnswered]:
    """Return the events in the log of a conversation that closed questions."""
    records = await server.runtime.parts.storage.log.read(LogId(conversation))
    return [each.event for each in records if isinstance(each.event, QuestionAnswered)]


@pytest.mark.parametrize("is_answer_first", [True, False])
async def test_an_answer_during_the_deletion_of_its_conversation_is_accepted_or_not_found(
    is_answer_first: bool,
) -> None:
    async with served(**asking()) as server:
        question = await asked(server)
        body = (await server.client.get(f"/api/questions/{question}")).json()
        url = f"/api/agents/assistant/chat/conversations/{body['conversationId']}"
        both: list[Any] = [
            answer(server, question, {"decision": "approve"}),
            server.client.delete(url),
        ]
        done = await asyncio.gather(*(both if is_answer_first else both[::-1]))
        (status, _), deleted = done if is_answer_first else done[::-1]
        assert (status in {200, 404}, deleted.status_code) == (True, 204)
        assert (await answer(server, question, {"decision": "approve"}))[0] == 404


async def test_an_unknown_question_is_not_found() -> None:
    async with served() as server:
        assert (await server.client.get("/api/questions/q_none")).status_code == 404
        assert (await answer(server, "q_none", {"decision": "approve"}))[0] == 404


async def test_approving_needs_its_own_permission() -> None:
    async with served(**asking()) as server:
        keys = server.database_parts.keys
        key = await keys.create("ann", permissions=["read", "chat"])
        headers = {"authorization": f"Bearer {key}"}
        body = {"content": "Mail"}
        url = "/api/agents/assistant/chat"
        parked = (await server.client.post(url, json=body, headers=headers)).json()
        question = parked["suspended"]["questions"][0]["id"]
        url = f"/api/questions/{question}/answer"
        refused = await server.client.post(url, json={"decision": "approve"}, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")


async def test_the_document_has_every_key_of_an_answer() -> None:
    """14.2: `{value, notes?}`, `{text, notes?}`, `{answer, notes?}`, `{decide: true}`."""
    async with served() as server:
        document = (await server.client.get("/openapi.json")).json()
    route = document["paths"]["/api/questions/{question_id}/answer"]["post"]
    schema = route["requestBody"]["content"]["application/json"]["schema"]
    assert schema["properties"].keys() >= {"value", "text", "answer", "notes", "decide", "cancel"}
