"""Blobs and complete results over HTTP."""

from base64 import b64encode
from typing import Any
from urllib.parse import quote

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.models.scripted import ScriptedModel, call, say
from penstock.resources.signed_links import LinkLabel
from penstock.server.routes.blobs import type_of
from penstock.testing.clock import FakeClock
from tests.kit.server import CHAT, served
from tests.kit.tools import Act

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
LARGE_PNG = b"\x89PNG\r\n\x1a\n" + bytes(500)
SMALL = Agent("assistant", settings=ChatSettings(result_max_chars=500))


async def test_a_signed_link_returns_the_bytes_with_safe_headers() -> None:
    async with served() as server:
        blob_id = await server.runtime.parts.storage.blobs.put(PNG)
        response = await server.client.get(server.app.state.lifecycle.context.links.to(blob_id))
    assert response.content == PNG
    assert response.headers["content-type"] == "image/png"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert response.headers["content-disposition"] == "inline"


async def test_bytes_that_are_not_an_image_are_an_attachment() -> None:
    async with served() as server:
        blob_id = await server.runtime.parts.storage.blobs.put(b"<svg onload=alert(1)>")
        response = await server.client.get(server.app.state.lifecycle.context.links.to(blob_id))
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"] == "attachment"


LABELS = [
    (
        LinkLabel("text/csv", "a.csv"),
        "text/csv",
        "attachment; filename=\"a.csv\"; filename*=UTF-8''a.csv",
    ),
    (
        LinkLabel("image/png", 'é" \\\r\n.png'),
        "image/png",
        "attachment; filename=\"__ ___.png\"; filename*=UTF-8''%C3%A9%22%20%5C%0D%0A.png",
    ),
    (LinkLabel("text/html"), "text/html", "attachment"),
    (
        LinkLabel("text/html\r\nx: y", "x"),
        "image/png",
        "attachment; filename=\"x\"; filename*=UTF-8''x",
    ),
]


@pytest.mark.parametrize(("label", "media_type", "disposition"), LABELS)
async def test_a_link_can_name_the_file(
    label: LinkLabel, media_type: str, disposition: str
) -> None:
    async with served() as server:
        blob_id = await server.runtime.parts.storage.blobs.put(PNG)
        link = server.app.state.lifecycle.context.links.to(blob_id, label=label)
        response = await server.client.get(link)
        changed = await server.client.get(link.replace("type=", "type=x"))
    assert response.headers["content-type"] == media_type
    assert response.headers["content-disposition"] == disposition
    assert response.headers["x-content-type-options"] == "nosniff"
    assert changed.status_code == 403


@pytest.mark.parametrize("change", [("sig=", "sig=0"), ("exp=", "exp=9"), ("exp=", "exp=x")])
async def test_a_changed_link_is_refused(change: tuple[str, str]) -> None:
    async with served() as server:
        blob_id = await server.runtime.parts.storage.blobs.put(PNG)
        link = server.app.state.lifecycle.context.links.to(blob_id).replace(*change)
        response = await server.client.get(link)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "LINK_EXPIRED")


async def test_a_link_expires() -> None:
    clock = FakeClock()
    async with served(clock=clock) as server:
        blob_id = await server.runtime.parts.storage.blobs.put(PNG)
        key = await server.database_parts.keys.create("ann")
        link = server.app.state.lifecycle.context.links.to(blob_id)
        assert (await server.client.get(link)).status_code == 200
        clock.advance(3600)
        assert (await server.client.get(link)).json()["error"]["code"] == "LINK_EXPIRED"
        bare = f"/api/blobs/{blob_id}"
        assert (await server.client.get(bare)).status_code == 401
        headers = {"authorization": f"Bearer {key}"}
        assert (await server.client.get(bare, headers=headers)).status_code == 404


async def test_a_key_reads_only_the_bytes_of_its_own_conversations() -> None:
    """GET `/blobs/{id}`: `exp`, `sig`, or a key that owns it."""

    async def draw(input: Any, invocation: Any) -> Any:
        return {"image": f"data:image/png;base64,{b64encode(LARGE_PNG).decode()}"}

    model = ScriptedModel([call("draw"), say("Drawn.")])
    async with served(model=model, tools=[Act("draw", draw)]) as server:
        ann, bob = [await server.database_parts.keys.create(each) for each in ("ann", "bob")]
        headers = {"authorization": f"Bearer {ann}"}
        answer = await server.client.post(CHAT, json={"content": "Draw"}, headers=headers)
        link = answer.json()["assistantMessage"]["toolResults"][0]["imageUrl"]
        bare = link.partition("?")[0]
        mine = await server.client.get(bare, headers=headers)
        assert (mine.status_code, mine.content) == (200, LARGE_PNG)
        other = await server.client.get(bare, headers={"authorization": f"Bearer {bob}"})
        missing = await server.client.get(f"/api/blobs/{'0' * 64}", headers=headers)
        assert (other.status_code, missing.status_code) == (404, 404)
        for name in ("draw", "%", '"'):
            path = f"/api/blobs/{quote(name)}"
            assert (await server.client.get(path, headers=headers)).status_code == 404


async def test_the_local_profile_needs_no_link() -> None:
    async with served() as server:
        blob_id = await server.runtime.parts.storage.blobs.put(PNG)
        assert (await server.client.get(f"/api/blobs/{blob_id}")).status_code == 200
        assert (await server.client.get(f"/api/blobs/{'0' * 64}")).status_code == 404


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"GIF87a", "image/gif"),
        (b"RIFF0000WEBPVP8 ", "image/webp"),
        (b"RIFF0000WAVE", "application/octet-stream"),
        (b"", "application/octet-stream"),
        (b"<html>", "application/octet-stream"),
    ],
)
def test_the_media_type_is_that_of_the_bytes(content: bytes, media_type: str) -> None:
    assert type_of(content) == media_type


async def test_a_clipped_result_is_stored_completely() -> None:
    async def much(input: Any, invocation: Any) -> Any:
        return {"text": "é" * 2000}

    model = ScriptedModel([call("read"), say("Long.")])
    async with served(model=model, tools=[Act("read", much)], agents=[SMALL]) as server:
        answer = (await server.say("Read")).json()["assistantMessage"]
        result = answer["toolResults"][0]
        assert result["truncated"] is True
        url = f"/api/artifacts/{result['artifactId']}"
        whole = (await server.client.get(url)).json()
        assert whole["totalCharacters"] == result["totalCharacters"] == len(whole["text"])
        assert (whole["toolName"], whole["hasMore"]) == ("read", False)
        part = (await server.client.get(url, params={"offset": 5, "limit": 10})).json()
        assert (part["text"], part["hasMore"]) == (whole["text"][5:15], True)
        assert (await server.client.get("/api/artifacts/art_none")).status_code == 404
        assert (await server.client.get(url, params={"limit": 0})).status_code == 400
