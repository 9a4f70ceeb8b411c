"""Direct calls over HTTP: every possible answer."""

import asyncio
from typing import Any

import pytest

from penstock.app.settings_sections import RateSection
from penstock.core.ids import ProfileId
from penstock.core.json_values.schema import Schema
from penstock.core.profile import CHAT as CHATTING
from penstock.core.profile import READ
from penstock.store.projections import Page
from tests.kit.server import InMemoryServer, served
from tests.kit.tools import Act, Gate, echo

URL = "/api/direct-calls"
NUMBER = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def tools() -> list[Act]:
    """Tools of every kind."""
    return [
        Act("look", echo, direct_call=True, input_schema=NUMBER, output_schema={"type": "object"}),
        Act("locked", direct_call=True, requires_permissions=frozenset({"root"})),
        Act("mail", direct_call=True, requires_approval=True),
        Act("hidden"),
    ]


async def post(server: InMemoryServer, tool_id: str, body: Any = None, **more: Any) -> Any:
    """Call a tool; returns the status and the body."""
    response = await server.client.post(f"{URL}/{tool_id}", json=body or {}, **more)
    return response.status_code, response.json()


async def key_for(server: InMemoryServer, *permissions: str) -> dict[str, str]:
    """Create a key, and return its header."""
    key = await server.database_parts.keys.create(
        "ann", profile_id=ProfileId("ann"), permissions=permissions
    )
    return {"authorization": f"Bearer {key}"}


async def test_callable_tools_are_listed_by_id() -> None:
    async with served(tools=tools()) as server:
        listed = (await server.client.get(URL)).json()
        assert listed["meta"] == {"total": 3, "limit": 50, "offset": 0}
        assert [each["toolId"] for each in listed["directCalls"]] == ["locked", "look", "mail"]
        assert (await server.client.get(f"{URL}/look")).json() == {
            "toolId": "look",
            "description": "Does look.",
            "inputSchema": NUMBER,
            "outputSchema": {"type": "object"},
            "effect": "read",
            "requiresApproval": False,
        }
        second = (await server.client.get(URL, params={"limit": 1, "offset": 2})).json()
        assert [each["requiresApproval"] for each in second["directCalls"]] == [True]
        for name in ("hidden", "nothing"):
            assert (await server.client.get(f"{URL}/{name}")).status_code == 404


async def test_a_tool_without_the_permission_is_not_described() -> None:
    async with served(tools=tools()) as server:
        headers = await key_for(server, READ)
        locked = await server.client.get(f"{URL}/locked", headers=headers)
    assert locked.status_code == 404
    assert 'no direct-call tool "locked"' in locked.json()["error"]["message"]


async def test_a_settled_call_returns_its_envelope() -> None:
    async with served(tools=tools()) as server:
        status, body = await post(server, "look", {"input": {"n": 1}})
        assert (status, body.pop("taskId")[:5]) == (200, "task_")
        assert body == {"status": "success", "output": {"n": 1}}
        plain = await server.client.post(f"{URL}/look")
        assert plain.json()["error"]["details"]["problems"][0]["path"] == "/n"


REFUSED = [
    ("nothing", 404, "failed", "TOOL_NOT_FOUND", 'no direct-call tool "nothing"'),
    ("hidden", 404, "failed", "TOOL_NOT_FOUND", 'no direct-call tool "hidden"'),
    ("locked", 403, "failed", "NOT_PERMITTED", '"locked" needs the permission root'),
    ("look", 422, "validation_error", "INVALID_INPUT", 'input of "look" is not valid: /n: '),
]


@pytest.mark.parametrize(("tool_id", "status", "outcome", "code", "message"), REFUSED)
async def test_a_refused_call_creates_no_task(
    tool_id: str, status: int, outcome: str, code: str, message: str
) -> None:
    async with served(tools=tools()) as server:
        headers = await key_for(server, READ, CHATTING)
        server.client.headers.update(headers)
        got, body = await post(server, tool_id, {"input": {"n": "x"}})
        _, total = await server.runtime.parts.storage.projections.tasks(page=Page())
    assert (got, body["status"], body["taskId"], total) == (status, outcome, None, 0)
    assert set(body["error"]) - {"details"} == {"code", "message", "retryable", "continuable"}
    assert body["error"]["code"] == code
    assert body["error"]["message"].startswith(message)


BROKEN: list[tuple[bytes, int, str]] = [
    (b"{", 400, "the body is not JSON"),
    (b"[]", 400, "/ must be an object"),
    (b'{"imput": {}}', 400, "/imput is not known. Did you mean 'input'?"),
    (b'{"conversationId": 1}', 400, "/conversationId "),
    (b'{"selectedSkillIds": "a"}', 400, "/selectedSkillIds "),
    (b'{"input": "' + b"x" * 2**20 + b'"}', 413, "the body has "),
]


@pytest.mark.parametrize(("content", "status", "message"), BROKEN)
async def test_an_invalid_request_gets_the_common_error_format(
    content: bytes, status: int, message: str
) -> None:
    async with served(tools=tools()) as server:
        response = await server.client.post(
            f"{URL}/look", content=content, headers={"content-type": "application/json"}
        )
    assert response.status_code == status
    assert message in response.json()["error"]["message"]


@pytest.mark.parametrize("value", [[], "x", 1])
async def test_an_input_that_is_not_an_object_is_invalid(value: Any) -> None:
    async with served(tools=tools()) as server:
        status, body = await post(server, "look", {"input": value})
    assert (status, body["status"], body["taskId"]) == (422, "validation_error", None)
    (problem,) = body["error"]["details"]["problems"]
    assert problem["message"].startswith("must be an object, found ")


async def test_a_call_needs_a_key_and_counts_towards_the_rate() -> None:
    async with served(tools=tools(), rates=RateSection(general=1)) as server:
        headers = await key_for(server, READ, CHATTING)
        assert (await post(server, "look"))[0] == 401
        assert (await post(server, "look", headers=headers))[0] == 422
        assert (await post(server, "look", headers=headers))[0] == 429


async def test_a_call_that_waits_returns_its_questions() -> None:
    async with served(tools=tools()) as server:
        status, body = await post(server, "mail")
        assert (status, body["status"], body["error"]["code"]) == (202, "suspended", "SUSPENDED")
        (question,) = body["questions"]
        assert (question["kind"], question["toolName"]) == ("approval", "mail")
        assert body["error"]["details"]["question_ids"] == [question["id"]]
        parked = (await server.client.get(f"/api/tasks/{body['taskId']}")).json()
        assert (parked["status"], parked["result"]) == ("suspended", None)
        answer = f"/api/questions/{question['id']}/answer"
        assert (await server.client.post(answer, json={"decision": "approve"})).is_success
        await server.runtime.requests.wait(body["taskId"])
        done = (await server.client.get(f"/api/tasks/{body['taskId']}")).json()
    assert done["result"] == {"status": "success", "output": {"done": "mail"}}


async def test_an_unknown_skill_is_an_invalid_input() -> None:
    """Spec: "unknown `selectedSkillIds`"."""
    async with served(tools=tools()) as server:
        status, body = await post(server, "look", {"input": {"n": 1}, "selectedSkillIds": ["x"]})
    assert (status, body["status"], body["taskId"]) == (422, "validation_error", None)
    assert body["error"]["details"]["problems"][0]["path"] == "/selectedSkillIds/0"
    text = "the request is not valid: /selectedSkillIds/0: no skill 'x'."
    assert body["error"]["message"].startswith(text)


@pytest.mark.parametrize("wait", [0, 0.01])
async def test_a_call_without_waiting_returns_its_task(wait: float) -> None:
    """Spec: "`wait=0`, or `wait` is over"."""
    gate = Gate()
    async with served(tools=[Act("slow", gate, direct_call=True)]) as server:
        status, body = await post(server, "slow", params={"wait": wait})
        assert (status, set(body)) == (202, {"taskId"})
        gate.open()
        await server.runtime.requests.wait(body["taskId"])
        done = (await server.client.get(f"/api/tasks/{body['taskId']}")).json()
    assert (done["kind"], done["result"]["output"]) == ("call", {"passed": True})


async def test_a_request_cannot_wait_longer_than_five_minutes() -> None:
    async with served(tools=tools()) as server:
        assert (await post(server, "look", params={"wait": 301}))[0] == 400


async def test_a_client_that_disconnects_cancels_no_call() -> None:
    gate = Gate()
    async with served(tools=[slow := Act("slow", gate, direct_call=True)]) as server:
        asking = asyncio.ensure_future(server.client.post(f"{URL}/slow", json={}))
        await gate.reached()
        asking.cancel()
        await asyncio.wait({asking})
        (task,), _ = await server.runtime.parts.storage.projections.tasks(page=Page())
        gate.open()
        reply = await server.runtime.requests.wait(task.task_id)
    assert reply
    assert reply.envelope
    assert (reply.envelope.ok, len(slow.runs)) == (True, 1)


async def test_a_cancelled_call_has_failed() -> None:
    async with served(tools=[Act("slow", Gate(), direct_call=True)]) as server:
        _, body = await post(server, "slow", params={"wait": 0})
        await server.client.post(f"/api/tasks/{body['taskId']}/cancel")
        await server.runtime.requests.wait(body["taskId"])
        task = (await server.client.get(f"/api/tasks/{body['taskId']}")).json()
    assert (task["result"]["status"], task["result"]["error"]["code"]) == ("failed", "CANCELLED")


async def test_a_repeated_key_returns_the_call_and_another_body_is_a_conflict() -> None:
    look, key = Act("look", echo, direct_call=True), {"idempotency-key": "k"}
    async with served(tools=[look, Act("else", direct_call=True)]) as server:
        both = await asyncio.gather(
            *(post(server, "look", {"input": {"n": 1}}, headers=key) for _ in range(2))
        )
        assert both[0] == both[1] == await post(server, "look", {"input": {"n": 1}}, headers=key)
        other = await post(server, "look", {"input": {"n": 2}}, headers=key)
        elsewhere = await post(server, "else", {"input": {"n": 1}}, headers=key)
        long = await post(server, "look", headers={"idempotency-key": "k" * 256})
    assert look.runs == [{"n": 1}]
    assert [each[1]["error"]["code"] for each in (other, elsewhere)] == ["IDEMPOTENCY_CONFLICT"] * 2
    assert (other[0], elsewhere[0], long[0]) == (409, 409, 400)


async def test_a_call_in_a_conversation_is_not_a_message() -> None:
    async with served(tools=tools()) as server:
        response = await server.say("Hi")
        conversation = response.headers["x-conversation-id"]
        in_it = {"input": {"n": 1}, "conversationId": conversation}
        status, body = await post(server, "look", in_it)
        task = (await server.client.get(f"/api/tasks/{body['taskId']}")).json()
        history = (
            await server.client.get(
                "/api/agents/assistant/chat", params={"conversationId": conversation}
            )
        ).json()
        unknown = await post(server, "look", in_it | {"conversationId": "conv_x"})
    assert (status, task["conversationId"], len(history["messages"])) == (200, conversation, 2)
    assert (unknown[0], unknown[1]["error"]["code"]) == (404, "NOT_FOUND")


async def test_a_call_without_a_conversation_is_in_no_list() -> None:
    async with served(tools=tools()) as server:
        await post(server, "look", {"input": {"n": 1}})
        listed = await server.client.get("/api/agents/assistant/chat/conversations")
    assert listed.json()["meta"]["total"] == 0


async def test_the_document_has_the_tools_that_the_profile_can_call() -> None:
    async with served(tools=tools()) as server:
        whole: Any = (await server.client.get("/openapi.json")).json()
        operation = whole["paths"][f"{URL}/look"]["post"]
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        schema = Schema(body | {"components": whole["components"]})
        assert schema.problems({"input": {"n": 1}}) == []
        assert [each.path for each in schema.problems({"input": {"n": "x"}})] == ["/input/n"]
        outcome = operation["responses"]["200"]["content"]["application/json"]["schema"]
        output = outcome["allOf"][1]["properties"]["output"]["$ref"].rpartition("/")[2]
        assert whole["components"]["schemas"][output]["type"] == "object"
    assert f"{URL}/hidden" not in whole["paths"]


async def test_the_document_hides_tools_that_the_profile_cannot_call() -> None:
    async with served(tools=tools()) as server:
        headers = await key_for(server, READ)
        known = (await server.client.get("/openapi.json", headers=headers)).json()["paths"]
        unknown = (await server.client.get("/openapi.json")).json()["paths"]
    assert {f"{URL}/look", f"{URL}/mail"} <= set(known)
    assert f"{URL}/locked" not in known
    assert [each for each in unknown if each.startswith(URL)] == [URL, f"{URL}/{{tool_id}}"]
