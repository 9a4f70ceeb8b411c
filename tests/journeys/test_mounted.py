"""The server inside another application, below a prefix: everything works there."""

import re
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from penstock.app.settings_sections import RateSection
from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.application import create_application
from tests.kit.server import HERE, InMemoryServer, in_memory
from tests.kit.tools import Act

ROOT = "/tools/penstock"
CHAT = f"{ROOT}/api/agents/assistant/chat"
FORM = {"content-type": "application/x-www-form-urlencoded"}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(500)


async def draw(input: Any, invocation: Any) -> Any:
    return {"image": f"data:image/png;base64,{b64encode(PNG).decode()}"}


@asynccontextmanager
async def mounted(rates: RateSection | None = None) -> AsyncIterator[InMemoryServer]:
    """Serve a runtime below a prefix of another application."""
    model = ScriptedModel([call("draw"), say("Look.")])
    async with in_memory(model=model, tools=[Act("draw", draw)]) as runtime:
        app = FastAPI()
        app.mount(ROOT, create_application(runtime, rates=rates))
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(
            transport=transport, base_url=HERE, follow_redirects=True
        ) as client:
            yield InMemoryServer(app, runtime, client)


async def test_the_page_loads_all_its_files() -> None:
    async with mounted() as server:
        page = await server.client.get(ROOT)
        assert str(page.url) == f"{HERE}{ROOT}/"
        named = re.findall(r'(?:href|src)="([^"#:]+)"', page.text)
        script = await server.client.get(page.url.join("page.js"))
        named += re.findall(r'from "([^"]+)"', script.text)
        response = [await server.client.get(page.url.join(each)) for each in named]
        agents = await server.client.get(page.url.join("api/agents"))
    assert sorted(named) == ["./runs.js", "./view.js", "page.css", "page.js"]
    assert [each.status_code for each in response] == [200] * 4
    assert agents.json()["agents"][0]["id"] == "assistant"


async def test_a_link_to_a_blob_starts_with_the_prefix() -> None:
    async with mounted() as server:
        response = await server.client.post(CHAT, json={"content": "Draw", "stream": True})
        name = response.headers["x-conversation-id"]
        listed = await server.client.get(f"{CHAT}?conversationId={name}")
        url = listed.json()["messages"][-1]["toolResults"][0]["imageUrl"]
        reply = await server.client.get(url)
    assert url.startswith(f"{ROOT}/api/blobs/")
    assert f'"imageUrl":"{ROOT}/api/blobs/' in response.text
    assert (reply.status_code, reply.content) == (200, PNG)


async def test_the_cookie_of_a_sign_in_is_limited_to_the_prefix() -> None:
    async with mounted() as server:
        key = await server.database_parts.keys.create("ann", permissions=("read", "chat"))
        assert (await server.client.get(f"{ROOT}/api/agents")).status_code == 401
        page = await server.client.get(f"{ROOT}/login")
        action = page.text.partition('action="')[2].partition('"')[0]
        done = await server.client.post(
            page.url.join(action), content=f"key={key}", headers=FORM, follow_redirects=False
        )
        assert f"Path={ROOT};" in done.headers["set-cookie"]
        after = await server.client.get(done.url.join(done.headers["location"]))
        assert str(after.url) == f"{HERE}{ROOT}/"
        assert (await server.client.get(f"{ROOT}/api/agents")).status_code == 200


async def test_a_link_of_the_web_command_opens_its_conversation() -> None:
    async with mounted() as server:
        body = (await server.client.post(CHAT, json={"content": "/web"})).json()
        token = body["assistantMessage"]["content"].partition("/link/")[2]
        page = await server.client.get(f"{ROOT}/link/{token}")
        action = page.text.partition('action="')[2].partition('"')[0]
        response = await server.client.post(page.url.join(action), content="", headers=FORM)
        live = response.text.partition('<p><a href="')[2].partition('"')[0]
    conversation = body["userMessage"]["conversationId"]
    assert str(response.url) == f"{HERE}{ROOT}/c/{conversation}"
    assert str(response.url.join(live)) == f"{HERE}{ROOT}/#assistant/{conversation}"


async def test_the_openapi_document_has_the_mount_path() -> None:
    async with mounted() as server:
        body = (await server.client.get(f"{ROOT}/openapi.json")).json()
    assert body["servers"] == [{"url": ROOT}]


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/api/health"), ("GET", "/api/session")])
async def test_a_wrong_method_gets_the_allowed_methods(method: str, path: str) -> None:
    async with mounted() as server:
        wrong = await server.client.request(method, ROOT + path)
    assert wrong.status_code == 405
    assert wrong.headers["allow"]


async def test_messages_are_counted_in_the_chat_class() -> None:
    """Admission knows a request by its path below the prefix."""
    async with mounted(RateSection(chat=1, general=100)) as server:
        key = await server.database_parts.keys.create("ann", permissions=("read", "chat"))
        head = {"authorization": f"Bearer {key}"}
        response = [
            await server.client.post(CHAT, json={"content": "/help"}, headers=head) for _ in "12"
        ]
    assert [each.status_code for each in response] == [200, 429]
