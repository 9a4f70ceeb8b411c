"""Messages to an agent over HTTP."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.chat.wire_forms import blocked_part
from penstock.core.call_errors import ToolFailed
from penstock.core.limits import Limits
from penstock.core.task import Missing, MissingKind
from penstock.models.scripted import Hold, ScriptedModel, call, fail, say, wait
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from tests.kit.server import CHAT, frames, served, types
from tests.kit.tools import Act


async def refuse(input: Any, invocation: Any) -> Any:
    raise ToolFailed("no paper", "NO_PAPER", continuable=False)


async def test_a_message_waits_for_its_answer() -> None:
    async with served() as server:
        response = await server.say("Hi")
    body = response.json()
    assert response.status_code == 200
    assert body["userMessage"]["content"] == "Hi"
    assert body["assistantMessage"]["content"] == "Hello."
    assert body["assistantMessage"]["metadata"]["finishReason"] == "stop"
    assert response.headers["x-conversation-id"] == body["userMessage"]["conversationId"]
    assert response.headers["x-task-id"] == body["userMessage"]["metadata"]["taskId"]


async def test_an_answer_can_be_streamed() -> None:
    async with served() as server:
        response = await server.stream("Hi")
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.text.startswith("retry: 2000\nid: 3\nevent: message\ndata: {")
    assert [(at, frame["type"]) for at, frame in frames(response.text)] == [
        ("3", "message_start"),
        ("3.0", "thinking"),
        ("3.3", "content_delta"),
        ("3.6", "content_delta"),
        ("5", "message_complete"),
    ]


async def test_a_blank_closing_reply_is_replaced_by_the_notice() -> None:
    """7.4: "the joined `content_delta`s of the last reply equal `content`"."""
    model = ScriptedModel([say(" \n"), say("\n"), say("Go on.")])
    async with served(model=model) as server:
        streamed = await server.stream("Hi")
        name = streamed.headers["x-conversation-id"]
        assert (await server.say("So?", conversationId=name)).status_code == 200
    shown = [frame for _, frame in frames(streamed.text)]
    kinds = " ".join(each["type"] for each in shown)
    assert kinds == (
        "message_start thinking content_delta content_delta"
        " content_reset content_delta message_complete"
    )
    assert shown[4] == {"type": "content_reset", "closing": True}
    assert shown[5]["delta"] == shown[6]["content"] == "I could not produce an answer."


async def test_a_conversation_continues_with_its_history() -> None:
    async with served() as server:
        first = await server.stream("Hi")
        conversation = first.headers["x-conversation-id"]
        second = await server.stream("Again", conversationId=conversation)
        assert second.headers["x-conversation-id"] == conversation
        assert set(types(second.text)) == set(types(first.text))
        assert frames(second.text)[0][1]["taskId"] == second.headers["x-task-id"]


async def test_aliases_of_keys_are_accepted() -> None:
    async with served() as server:
        first = await server.client.post(CHAT, json={"message": "Hi"})
        conversation = first.headers["x-conversation-id"]
        again = {"message": "Hi", "conversation_id": conversation}
        second = await server.client.post(CHAT, json=again)
        assert second.headers["x-conversation-id"] == conversation


async def test_a_question_parks_the_task() -> None:
    model = ScriptedModel([call("mail", to="ann"), say("Sent.")])
    tool = Act("mail", requires_approval=True)
    async with served(model=model, tools=[tool]) as server:
        response = await server.say("Mail Ann")
        assert response.status_code == 202
        body = response.json()
        assert body["assistantMessage"] is None
        (question,) = body["suspended"]["questions"]
        assert question["kind"] == "approval"
        answer = {"decision": "approve"}
        answered = await server.client.post(f"/api/questions/{question['id']}/answer", json=answer)
        assert answered.json()["question"]["status"] == "answered"
        rest = await server.follow(body["conversationId"])
        assert types(rest.text)[-1] == "message_complete"
        busy = await server.say("And?", conversationId=body["conversationId"])
        assert busy.status_code in {200, 502}


async def test_a_message_during_an_open_approval_is_refused() -> None:
    model = ScriptedModel([call("mail", to="ann"), say("Well."), say("Well.")])
    async with served(model=model, tools=[Act("mail", requires_approval=True)]) as server:
        parked = await server.say("Mail Ann")
        conversation = parked.json()["conversationId"]
        refused = await server.say("Now?", conversationId=conversation)
        assert refused.status_code == 409
        assert refused.json()["error"]["code"] == "QUESTION_OPEN"
        ids = refused.json()["error"]["details"]["questions"]
        assert ids == [parked.json()["suspended"]["questions"][0]["id"]]
        taken = await server.say("Now!", conversationId=conversation, cancelOpen=True)
        assert taken.status_code == 200


ENDS = [
    ([call("print")], 422, "NO_PAPER", {"toolName": "print"}),
    ([fail(400, "bad words")], 502, "MODEL_REFUSED", {"retryable": False}),
    ([fail(503), fail(503), fail(503)], 502, "MODEL_UNAVAILABLE", {"retryable": True}),
]


@pytest.mark.parametrize(("script", "status", "code", "details"), ENDS)
async def test_a_failed_task_has_the_status_of_its_error(
    script: Any, status: int, code: str, details: dict[str, Any]
) -> None:
    """The stream has an `error` frame with the same code: both use one table."""
    limits = Limits(model_tries=1)
    tool = Act("print", refuse)
    async with served(model=ScriptedModel(script), tools=[tool], limits=limits) as server:
        response = await server.say("Go")
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (status, code)
        assert details.items() <= error["details"].items()
        assert error["details"]["taskId"] == response.headers["x-task-id"]
        history = (await server.client.get(CHAT)).json()["messages"]
        assert history[0]["metadata"]["error"]["code"] == code
        shown = await server.follow(response.headers["x-conversation-id"])
        assert frames(shown.text)[-1][1]["code"] == code


async def test_the_retry_after_of_a_provider_is_passed_on() -> None:
    """Page, of 502: "`Retry-After` when the provider gave one"."""
    script = [fail(429, retry_after=6.2), fail(503)]
    async with served(model=ScriptedModel(script), limits=Limits(model_tries=1)) as server:
        result, untold = await server.say("Go"), await server.say("Go")
    assert (result.status_code, result.headers["retry-after"]) == (502, "7")
    assert (untold.status_code, "retry-after" in untold.headers) == (502, False)


async def test_an_internal_error_has_the_id_of_its_request() -> None:
    """Page: "`INTERNAL_ERROR` | 500 | request id"."""

    class Odd(Act):
        def preview(self, output: Any) -> str | None:
            raise ValueError("a secret")

    async with served(model=ScriptedModel([call("odd")]), tools=[Odd("odd")]) as server:
        response = await server.say("Go")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (500, "INTERNAL_ERROR")
    assert error["details"]["requestId"] == response.headers["x-request-id"]


async def test_a_cancelled_task_is_a_409() -> None:
    hold = Hold()
    async with served(model=ScriptedModel([wait(hold)])) as server:
        started = await server.client.post(f"{CHAT}/conversations", json={"title": "T"})
        conversation = started.json()["id"]
        waiting = asyncio.create_task(server.say("Go", conversationId=conversation))
        await hold.reached()
        projections = server.runtime.parts.storage.projections
        tasks, _ = await projections.tasks(log_id=conversation, page=Page())
        cancelled = await server.client.post(f"/api/tasks/{tasks[0].task_id}/cancel")
        assert cancelled.status_code == 202
        response = await waiting
        assert (response.status_code, response.json()["error"]["code"]) == (409, "TASK_ENDED")
        assert response.json()["error"]["details"]["status"] == "cancelled"
        shown = await server.follow(conversation)
        assert frames(shown.text)[-1][1]["code"] == "CANCELLED"
        again = await server.client.post(f"/api/tasks/{tasks[0].task_id}/cancel")
        assert (again.status_code, again.json()["error"]["code"]) == (409, "TASK_ENDED")


BAD = [
    (b"", 400, "BAD_REQUEST"),
    (b"{", 400, "BAD_REQUEST"),
    (b'{"content":NaN}', 400, "BAD_REQUEST"),
    (b"\xff", 400, "BAD_REQUEST"),
    (b"[" * 100_000, 400, "BAD_REQUEST"),
    (b"[]", 422, "VALIDATION_ERROR"),
    (b"null", 422, "VALIDATION_ERROR"),
    (b"{}", 422, "VALIDATION_ERROR"),
    (b'{"content":""}', 422, "VALIDATION_ERROR"),
    (b'{"content":" \\n "}', 422, "VALIDATION_ERROR"),
    (b'{"content":"%s"}' % (b"x" * 100_001), 422, "VALIDATION_ERROR"),
    (b'{"content":7}', 422, "VALIDATION_ERROR"),
    (b'{"content":"x","stream":"yes"}', 422, "VALIDATION_ERROR"),
    (b'{"content":"x","model":"nonesuch"}', 422, "VALIDATION_ERROR"),
    (b'{"content":"x","message":"y"}', 422, "VALIDATION_ERROR"),
    (b'{"content":"x","selectedSkillIds":["a"]}', 422, "VALIDATION_ERROR"),
    (b'{"content":"x","conversationId":"conv_none"}', 404, "NOT_FOUND"),
]


@pytest.mark.parametrize(("body", "status", "code"), BAD)
async def test_an_unreadable_message_is_refused(body: bytes, status: int, code: str) -> None:
    async with served() as server:
        headers = {"content-type": "application/json"}
        response = await server.client.post(CHAT, content=body, headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
        listed = await server.client.get(f"{CHAT}/conversations")
        assert listed.json()["conversations"] == []


async def test_every_problem_is_named_with_the_nearest_known_name() -> None:
    """A mistyped `enableTool` must not leave tools on."""
    async with served() as server:
        response = await server.say("", enableTool=False, model_settings={}, stream=1)
    assert response.json()["error"]["details"] == [
        {"field": "/enableTool", "issue": "is not known. Did you mean 'enableTools'?"},
        {"field": "/model_settings", "issue": "is not known. Did you mean 'modelSettings'?"},
        {"field": "/content", "issue": "must not be blank"},
        {"field": "/stream", "issue": '1 is not of types "null", "boolean"'},
    ]


async def test_a_body_that_is_too_large_or_not_json_is_refused() -> None:
    async with served(limits=Limits(request_bytes=50)) as server:
        large = await server.say("x" * 60)
        assert (large.status_code, large.json()["error"]["code"]) == (413, "TOO_LARGE")
        plain = await server.client.post(CHAT, content="Hi", headers={"content-type": "text/plain"})
        assert (plain.status_code, plain.json()["error"]["code"]) == (415, "UNSUPPORTED_TYPE")


async def test_a_lone_surrogate_in_a_message_is_replaced() -> None:
    async with served() as server:
        headers = {"content-type": "application/json"}
        response = await server.client.post(
            CHAT, content=b'{"content":"a\\ud800"}', headers=headers
        )
        assert response.json()["userMessage"]["content"] == "a\ufffd"


async def test_the_same_key_attaches_to_the_same_task() -> None:
    async with served() as server:
        headers = {"idempotency-key": "k1"}
        body = {"content": "Hi", "stream": True}
        first = await server.client.post(CHAT, json=body, headers=headers)
        second = await server.client.post(CHAT, json=body, headers=headers)
        assert second.headers["x-task-id"] == first.headers["x-task-id"]
        assert types(second.text)[0] == "message_start"
        other = await server.client.post(CHAT, json={"content": "Ho"}, headers=headers)
        assert (other.status_code, other.json()["error"]["code"]) == (409, "IDEMPOTENCY_CONFLICT")


async def test_tools_can_be_switched_off() -> None:
    """`enableTools` of a request is true by default."""
    model = ScriptedModel({"": say("Yes.")})
    async with served(model=model, tools=[Act("add")]) as server:
        await server.say("Hi")
        await server.say("Hi", enableTools=False)
    assert [len(request.tools) for request in model.requests] == [1, 0]


async def test_an_answer_can_be_regenerated() -> None:
    clock = FakeClock()
    model = ScriptedModel([say("One."), say("Two."), say("Three.")])
    async with served(model=model, clock=clock) as server:
        first = (await server.say("Hi")).json()
        conversation = first["userMessage"]["conversationId"]
        await server.say("And?", conversationId=conversation)
        clock.advance(1)  # in the same millisecond the second answer would count as unseen
        again = await server.client.post(
            f"{CHAT}/messages/{first['assistantMessage']['id']}/regenerate"
        )
        assert again.json()["assistantMessage"]["content"] == "Three."
        assert again.json()["userMessage"]["id"] == first["userMessage"]["id"]
        messages = (await server.client.get(CHAT)).json()
        assert [each["content"] for each in messages["messages"]] == ["Hi", "Three."]
        assert messages["meta"]["total"] == 2
        assert [each.content for each in model.requests[-1].messages] == ["Hi"]


async def test_a_superseded_answer_is_not_found() -> None:
    clock = FakeClock()
    model = ScriptedModel([say("One."), say("Two."), say("Three."), say("Four.")])
    async with served(model=model, clock=clock) as server:
        first = (await server.say("Hi")).json()
        name = first["userMessage"]["conversationId"]
        second = (await server.say("And?", conversationId=name)).json()
        url = f"{CHAT}/messages"
        clock.advance(1)  # in the same millisecond the second answer would count as unseen
        again = await server.client.post(f"{url}/{first['userMessage']['id']}/regenerate")
        gone = [first["assistantMessage"], second["userMessage"], second["assistantMessage"]]
        for message in gone:
            path = f"{url}/{message['id']}"
            assert (await server.client.post(f"{path}/regenerate")).status_code == 404
            assert (await server.client.delete(path)).status_code == 404
        regenerated = again.json()["assistantMessage"]["id"]
        last = await server.client.post(f"{url}/{regenerated}/regenerate")
        assert last.json()["userMessage"]["id"] == first["userMessage"]["id"]
        assert last.json()["assistantMessage"]["content"] == "Four."


async def test_no_answer_is_regenerated_while_a_message_is_answered() -> None:
    hold = Hold()
    model = ScriptedModel([say("One."), wait(hold) + say("Two.")])
    async with served(model=model) as server:
        first = (await server.say("Hi")).json()["userMessage"]
        second = asyncio.create_task(server.say("Ho", conversationId=first["conversationId"]))
        await hold.reached()
        again = await server.client.post(f"{CHAT}/messages/{first['id']}/regenerate")
        assert (again.status_code, again.json()["error"]["code"]) == (409, "CONVERSATION_BUSY")
        hold.release()
        assert (await second).status_code == 200


async def test_one_of_many_concurrent_regenerations_succeeds() -> None:
    """The chat's 409 is `CONVERSATION_BUSY`: a message is being answered."""
    hold = Hold()
    model = ScriptedModel([say("One."), wait(hold) + say("Two."), say("Never.")])
    async with served(model=model) as server:
        first = (await server.say("Hi")).json()["userMessage"]
        url = f"{CHAT}/messages/{first['id']}/regenerate"
        wishes = [asyncio.create_task(server.client.post(url)) for _ in range(6)]
        await hold.reached()
        answers = asyncio.as_completed(wishes)
        refused = [await next(answers) for _ in range(5)]
        hold.release()
        assert (await next(answers)).json()["assistantMessage"]["content"] == "Two."
    assert {each.json()["error"]["code"] for each in refused} == {"CONVERSATION_BUSY"}
    assert len(model.requests) == 2


async def test_a_regeneration_removes_no_concurrent_message() -> None:
    for _ in range(5):
        async with served() as server:
            first = (await server.say("Hi")).json()["userMessage"]
            name = first["conversationId"]
            again = server.client.post(f"{CHAT}/messages/{first['id']}/regenerate")
            new, regenerated = await asyncio.gather(server.say("Ho", conversationId=name), again)
            messages = (await server.client.get(CHAT)).json()["messages"]
            assert new.status_code == 200
            assert regenerated.status_code in {200, 409}
            assert [each["content"] for each in messages].count("Ho") == 1


async def test_an_unknown_message_cannot_be_regenerated() -> None:
    async with served() as server:
        response = await server.client.post(f"{CHAT}/messages/msg_none/regenerate", json={})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_a_task_whose_tool_another_server_has_is_blocked_for_every_caller(
    tmp_path: Path,
) -> None:
    """The answer is taken; a waiting client gets 202, a stream ends with what is missing."""
    asks = ScriptedModel({"Pay": [call("pay"), say("Paid.")], "And?": [say("Nothing.")]})
    missing = blocked_part([Missing(MissingKind.TOOL, "pay")])
    url = f"sqlite:///{tmp_path}/one.db"
    pay = Act("pay", requires_approval=True)
    async with served(model=asks, tools=[pay], url=url) as server:
        asked = (await server.say("Pay")).json()
    (question,) = asked["suspended"]["questions"]
    conversation = asked["conversationId"]
    async with served(model=asks, url=url) as server:
        body = {"decision": "approve"}
        path = f"/api/questions/{question['id']}/answer"
        assert (await server.client.post(path, json=body)).status_code == 200
        behind = await server.say("And?", conversationId=conversation)
        task = (await server.client.get(f"/api/tasks/{asked['taskId']}")).json()
        streamed = await server.follow(conversation)
    assert (behind.status_code, behind.json()) == (
        202,
        {"taskId": behind.headers["x-task-id"], "conversationId": conversation, "status": "blocked"}
        | missing,
    )
    assert task["status"] == "blocked"
    assert missing.items() <= task.items()
    blocked = [frame for _, frame in frames(streamed.text) if "blockedOn" in frame]
    assert (
        blocked[0]
        == {
            "type": "suspended",
            "taskId": asked["taskId"],
            "questions": [],
        }
        | missing
    )
