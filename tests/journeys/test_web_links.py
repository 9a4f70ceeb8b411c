"""Links of `/web`, used over HTTP."""

import asyncio
from typing import Any

import pytest

from penstock.accounts.web_links import LINK_UNUSABLE
from penstock.core.ids import ProfileId
from penstock.core.limits import Limits
from penstock.core.profile import ADMIN, APPROVE, CHAT, MANAGE, READ
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from tests.kit.server import CHAT as CHATTING
from tests.kit.server import HERE, InMemoryServer, served
from tests.kit.tools import Act, echo

URL = "/api/links"
FORM = {"content-type": "application/x-www-form-urlencoded"}


async def link_of(server: InMemoryServer, **headers: str) -> tuple[str, str]:
    """Ask for a link; returns its token, and the conversation."""
    response = await server.client.post(CHATTING, json={"content": "/web"}, headers=headers)
    exchange = response.json()
    content = exchange["assistantMessage"]["content"]
    return content.partition("/link/")[2], exchange["userMessage"]["conversationId"]


async def key_of(server: InMemoryServer, *permissions: str) -> dict[str, str]:
    """Make a key; returns the header that shows it."""
    held = permissions or (READ, CHAT, APPROVE, MANAGE, ADMIN, "p.send", "vault.write")
    key = await server.database_parts.keys.create("ann", permissions=held)
    return {"authorization": f"Bearer {key}"}


async def opened(server: InMemoryServer, token: str) -> dict[str, str]:
    """Use a link; returns the header that shows its key."""
    key = (await server.client.post(f"{URL}/{token}")).json()["key"]
    return {"authorization": f"Bearer {key}"}


async def test_a_link_opens_its_conversation_once() -> None:
    """Spec: "answers a single-use link, good for 10 minutes, that opens this conversation"."""
    async with served() as server:
        token, conversation = await link_of(server)
        both = await asyncio.gather(*(server.client.post(f"{URL}/{token}") for _ in range(2)))
    assert sorted(each.status_code for each in both) == [200, 403]
    body = {each.status_code: each.json() for each in both}
    ids = {"agentId": "assistant", "conversationId": conversation}
    assert body[200] == ids | {"key": None, "expiresAt": None}
    assert body[403]["error"] == {"code": "LINK_EXPIRED", "message": LINK_UNUSABLE}


async def test_a_link_token_is_random_and_does_not_contain_the_conversation() -> None:
    """Spec: "32 random bytes; stored as SHA-256"."""
    async with served() as server:
        token, conversation = await link_of(server)
        other, _ = await link_of(server)
    assert len(token) == len(other) == 43
    assert (token != other, conversation in token) == (True, False)


MAKERS = [
    ((READ, CHAT, ADMIN), frozenset({READ, CHAT, APPROVE})),
    ((READ, CHAT, MANAGE, "p.send"), frozenset({READ, CHAT})),
]


@pytest.mark.parametrize(("held", "value"), MAKERS)
async def test_the_key_of_a_link_has_at_most_the_permissions_of_its_maker(
    held: tuple[str, ...], value: frozenset[str]
) -> None:
    """Spec: "permissions `read, chat, approve` as far as the maker has them"."""
    async with served(clock=FakeClock()) as server:
        token, conversation = await link_of(server, **await key_of(server, *held))
        answer = (await server.client.post(f"{URL}/{token}")).json()
        profile = await server.database_parts.keys.profile(answer["key"])
        record = (await server.database_parts.keys.list())[-1]
    assert (profile.profile_id, profile.permissions) == (ProfileId("ann"), value)
    assert (record.session_id, answer["conversationId"]) == (conversation, conversation)
    assert record.expires_at == record.created_at + 1000 * Limits().web_key_seconds
    assert answer["expiresAt"].endswith("Z")


async def test_the_key_of_a_link_reaches_only_its_conversation() -> None:
    """Spec: "only that conversation, its tasks, questions, artifacts, blobs; the rest 404"."""
    tried: list[tuple[str, str, dict[str, Any] | None]]
    tools = [Act("send", echo, direct_call=True, requires_permissions=frozenset({"p.send"}))]
    async with served(tools=tools, clock=FakeClock()) as server:
        ann = await key_of(server)
        other = await server.client.post(CHATTING, json={"content": "Private"}, headers=ann)
        theirs, task = other.headers["x-conversation-id"], other.headers["x-task-id"]
        message = other.json()["userMessage"]["id"]
        token, _ = await link_of(server, **ann)
        own = await opened(server, token)
        tried = [
            ("GET", f"{CHATTING}/conversations", None),
            ("POST", f"{CHATTING}/conversations", {}),
            ("DELETE", f"{CHATTING}/conversations/{theirs}", None),
            ("DELETE", CHATTING, None),
            ("GET", f"{CHATTING}?conversationId={theirs}", None),
            ("GET", f"{CHATTING}/stream?conversationId={theirs}", None),
            ("GET", f"{CHATTING}/tools", None),
            ("GET", f"{CHATTING}/models", None),
            ("POST", CHATTING, {"content": "A new one"}),
            ("POST", CHATTING, {"content": "Hi", "conversationId": theirs}),
            ("DELETE", f"{CHATTING}/messages/{message}", None),
            ("POST", f"{CHATTING}/messages/{message}/regenerate", {}),
            ("GET", f"/api/tasks/{task}", None),
            ("GET", f"/api/tasks/{task}/events", None),
            ("POST", f"/api/tasks/{task}/cancel", None),
            ("GET", "/api/questions/q_1", None),
            ("GET", "/api/agents", None),
            ("GET", "/api/permissions", None),
            ("GET", "/api/direct-calls", None),
            ("GET", "/api/direct-calls/send", None),
            ("POST", "/api/direct-calls/send", {"input": {}}),
            ("GET", "/api/vault/profile/me", None),
            ("PUT", "/api/vault/profile/me/k", {"value": "v"}),
            ("GET", f"/c/{theirs}", None),
        ]
        for method, path, body in tried:
            answer = await server.client.request(method, path, json=body, headers=own)
            assert answer.status_code == 404, (method, path, answer.text)
        after = await server.client.get(f"{CHATTING}?conversationId={theirs}", headers=ann)
    assert len(after.json()["messages"]) == 2


async def test_the_key_of_a_link_can_continue_its_conversation() -> None:
    tools = [Act("send", echo, requires_approval=True)]
    model = ScriptedModel([call("send"), say("Sent.")])
    async with served(model=model, tools=tools, clock=FakeClock()) as server:
        token, conversation = await link_of(server, **await key_of(server))
        own = await opened(server, token)
        body = {"content": "Send it", "conversationId": conversation}
        waits = await server.client.post(CHATTING, json=body, headers=own)
        assert waits.status_code == 202
        listed = (await server.client.get("/api/questions", headers=own)).json()["questions"]
        answer = f"/api/questions/{listed[0]['id']}/answer"
        response = await server.client.post(answer, json={"decision": "approve"}, headers=own)
        assert response.status_code == 200
        path = f"{CHATTING}/stream?conversationId={conversation}"
        assert "Sent." in (await server.client.get(path, headers=own)).text
        task = await server.client.get(f"/api/tasks/{waits.headers['x-task-id']}", headers=own)
        history = (await server.client.get(CHATTING, headers=own)).json()
    assert task.json()["status"] == "succeeded"
    assert (len(history["messages"]), history["conversationId"]) == (4, conversation)


async def test_the_key_of_a_link_ends_with_its_conversation() -> None:
    """Spec: "Deleted with the conversation"."""
    async with served(clock=FakeClock()) as server:
        ann = await key_of(server)
        token, conversation = await link_of(server, **ann)
        own = await opened(server, token)
        path = f"{CHATTING}/conversations/{conversation}"
        assert (await server.client.delete(path, headers=ann)).status_code == 204
        refused = await server.client.get(CHATTING, headers=own)
        names = [each.name for each in await server.database_parts.keys.list()]
    assert (refused.status_code, names) == (401, ["ann"])


@pytest.mark.parametrize("token", ["x", "x.y", "é", "A" * 43])
async def test_an_invalid_link_is_refused(token: str) -> None:
    async with served() as server:
        await server.database_parts.keys.create("ann")
        refused = await server.client.post(f"{URL}/{token}")
    assert (refused.status_code, refused.json()["error"]["message"]) == (403, LINK_UNUSABLE)


async def test_a_link_expires_after_ten_minutes() -> None:
    clock = FakeClock()
    async with served(clock=clock) as server:
        (first, _), (second, _) = [await link_of(server) for _ in range(2)]
        clock.advance(599)
        assert (await server.client.post(f"{URL}/{first}")).status_code == 200
        clock.advance(1)
        refused = await server.client.post(f"{URL}/{second}")
    assert (refused.status_code, refused.json()["error"]["message"]) == (403, LINK_UNUSABLE)


async def test_a_link_to_a_deleted_conversation_is_refused() -> None:
    async with served() as server:
        token, conversation = await link_of(server)
        await server.client.delete(f"{CHATTING}/conversations/{conversation}")
        refused = await server.client.post(f"{URL}/{token}")
    assert (refused.status_code, refused.json()["error"]["message"]) == (403, LINK_UNUSABLE)


async def test_showing_the_page_of_a_link_does_not_use_it() -> None:
    """Spec: "a page with one button; consumes nothing (previews)"; "unknown token: the same"."""
    async with served() as server:
        token, _ = await link_of(server)
        shown = [await server.client.get(f"/link/{each}") for each in (token, token, '"><b>')]
        assert (await server.client.post(f"{URL}/{token}")).status_code == 200
    assert {each.status_code for each in shown} == {200}
    assert shown[0].text.replace(token, "T") == shown[2].text.replace("%22%3E%3Cb%3E", "T")
    assert shown[0].text.count("<button>") == 1
    assert shown[0].headers["cache-control"] == "no-store"
    assert shown[0].headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in shown[0].headers["content-security-policy"]


async def test_the_button_of_a_link_opens_the_conversation() -> None:
    """Spec: "a form post sets the cookie and redirects (303) to the conversation"."""
    async with served(clock=FakeClock()) as server:
        token, conversation = await link_of(server, **await key_of(server))
        response = await server.client.post(
            f"{URL}/{token}", headers=FORM | {"origin": "null", "sec-fetch-site": "same-origin"}
        )
        again = await server.client.post(f"{URL}/{token}", headers=FORM)
        page = await server.client.get(response.url.join(response.headers["location"]))
        other = await server.client.get(f"{CHATTING}/conversations")
    assert (response.status_code, response.headers["location"]) == (303, f"../../c/{conversation}")
    assert response.headers["set-cookie"].startswith("penstock_session=")
    assert (again.status_code, again.headers["content-type"]) == (403, "text/html; charset=utf-8")
    assert (page.status_code, other.status_code) == (200, 404)


async def test_the_button_of_a_link_sets_no_cookie_for_local_requests() -> None:
    async with served() as server:
        token, conversation = await link_of(server)
        response = await server.client.post(f"{URL}/{token}", headers=FORM | {"origin": "null"})
    assert (response.status_code, response.headers["location"]) == (303, f"../../c/{conversation}")
    assert "set-cookie" not in response.headers


FOREIGN: list[dict[str, Any]] = [
    {"origin": "https://evil.example"},
    {"origin": "null", "sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN)
async def test_a_foreign_page_cannot_open_a_link(headers: dict[str, str]) -> None:
    async with served() as server:
        token, _ = await link_of(server)
        refused = await server.client.post(f"{URL}/{token}", headers=FORM | headers)
        assert (await server.client.post(f"{URL}/{token}", headers={"origin": HERE})).is_success
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "ORIGIN_NOT_ALLOWED")
