"""Links of `/web`, used over HTTP."""

import asyncio
from typing import Any

import pytest

from penstock.chat.web_links import OVER, USED, WRONG
from penstock.core.ids import ProfileId
from penstock.core.limits import Limits
from penstock.core.profile import ADMIN, CHAT, READ
from tests.kit.server import CHAT as CHATTING
from tests.kit.server import InMemoryServer, served

URL = "/api/web-links"


async def link_of(server: InMemoryServer, **headers: Any) -> tuple[str, str]:
    """Ask for a link; returns its token, and the conversation."""
    said = await server.client.post(CHATTING, json={"content": "/web"}, **headers)
    exchange = said.json()
    content = exchange["assistantMessage"]["content"]
    return content.partition("#web=")[2], exchange["userMessage"]["conversationId"]


async def test_a_link_opens_its_conversation_once() -> None:
    """Spec: "answers a single-use link, good for 10 minutes, that opens this conversation"."""
    async with served() as server:
        token, conversation = await link_of(server)
        both = await asyncio.gather(*(server.client.post(f"{URL}/{token}") for _ in range(2)))
    opened = {"agentId": "assistant", "conversationId": conversation, "key": None}
    assert sorted(each.status_code for each in both) == [200, 403]
    said = {each.status_code: each.json() for each in both}
    assert said[200] == opened
    assert said[403]["error"]["message"] == USED


async def test_where_keys_are_needed_a_link_brings_one_for_a_while() -> None:
    async with served() as server:
        keys = server.archive.keys
        key = await keys.create("ann", permissions=(READ, CHAT, ADMIN))
        token, conversation = await link_of(server, headers={"authorization": f"Bearer {key}"})
        opened = (await server.client.post(f"{URL}/{token}")).json()
        own = {"authorization": f"Bearer {opened['key']}"}
        history = await server.client.get(
            CHATTING, params={"conversationId": conversation}, headers=own
        )
        profile = await keys.profile(opened["key"])
        record = (await keys.list())[-1]
    assert len(history.json()["messages"]) == 2
    assert (profile.profile_id, profile.permissions) == (ProfileId("ann"), frozenset({READ, CHAT}))
    assert record.expires_at
    seconds = (record.expires_at - record.created_at) / 1000
    assert seconds == pytest.approx(Limits().web_key_seconds, abs=5)


@pytest.mark.parametrize("token", ["x", "x.y", "é"])
async def test_what_is_no_link_opens_nothing(token: str) -> None:
    async with served() as server:
        await server.archive.keys.create("ann")
        refused = await server.client.post(f"{URL}/{token}")
    assert (refused.status_code, refused.json()["error"]["message"]) == (403, WRONG)


async def test_a_link_whose_time_is_over_opens_nothing() -> None:
    async with served(limits=Limits(web_link_seconds=0)) as server:
        token, _ = await link_of(server)
        refused = await server.client.post(f"{URL}/{token}")
    assert (refused.status_code, refused.json()["error"]["message"]) == (403, OVER)


async def test_a_link_to_what_was_deleted_opens_nothing() -> None:
    async with served() as server:
        token, conversation = await link_of(server)
        await server.client.delete(f"{CHATTING}/conversations/{conversation}")
        refused = await server.client.post(f"{URL}/{token}")
    assert refused.status_code == 404
