"""Streams over real connections: live, cut, abandoned, and resumed."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from penstock.app.runtime import Runtime
from penstock.core.limits import Limits
from penstock.models.scripted import Hold, ScriptedModel, say, slow, wait
from penstock.server.application import create_application
from penstock.store.projections import Page
from tests.kit.listener import listening
from tests.kit.server import CHAT, blocks, frames, in_memory, types

ASK = {"content": "Hi", "stream": True}
LIMITS = Limits(shutdown_seconds=0.05, poll_seconds=0.02)


@asynccontextmanager
async def client_of(runtime: Runtime) -> AsyncIterator[tuple[FastAPI, httpx2.AsyncClient]]:
    """Serve a runtime on a port, and connect to it."""
    app = create_application(runtime)
    async with listening(app) as url, httpx2.AsyncClient(base_url=url) as client:
        yield app, client


async def test_pieces_arrive_while_the_model_works() -> None:
    hold = Hold()
    model = ScriptedModel([say("Hel") + wait(hold) + say("lo.")])
    async with (
        in_memory(model=model) as runtime,
        client_of(runtime) as (_, client),
        client.stream("POST", CHAT, json=ASK) as response,
    ):
        coming = blocks(response)
        first = [await anext(coming) for _ in range(3)]
        assert types("".join(first)) == ["message_start", "thinking", "content_delta"]
        hold.release()
        rest = [block async for block in coming]
        assert types("".join(rest)) == ["content_delta", "message_complete"]


async def test_a_client_that_disconnects_cancels_no_task() -> None:
    """A client that disconnects cancels nothing; it reconnects and reads the rest."""
    hold = Hold()
    model = ScriptedModel([say("Hel") + wait(hold) + say("lo.")])
    async with in_memory(model=model) as runtime, client_of(runtime) as (_, client):
        async with client.stream("POST", CHAT, json=ASK) as response:
            coming = blocks(response)
            seen = [await anext(coming) for _ in range(3)]
        query = {"conversationId": response.headers["x-conversation-id"]}
        headers = {"last-event-id": frames(seen[-1])[0][0]}
        hold.release()
        rest = await client.get(f"{CHAT}/stream", params=query, headers=headers)
        assert [frame.get("delta") for _, frame in frames(rest.text)] == ["lo.", None]


@pytest.mark.chaos
@pytest.mark.slow("a real server, and streams to their limits")
async def test_a_reader_that_does_not_read_is_disconnected_and_can_resume() -> None:
    """A slow reader is dropped with a resumable position, and nothing is kept without bound."""
    hold = Hold()
    long = "x" * 20_000
    in_pieces = sum([say(long) + slow(0)] * 1000, start=wait(hold))
    model = ScriptedModel([in_pieces])
    async with (
        in_memory(model=model) as runtime,
        client_of(runtime) as (_, client),
    ):
        started = await client.post(f"{CHAT}/conversations")
        body = f'{{"content":"Hi","stream":true,"conversationId":"{started.json()["id"]}"}}'
        lazy = await connect(str(client.base_url), body)
        await hold.reached()
        hold.release()
        task = (await runtime.parts.storage.projections.tasks(page=Page()))[0][0]
        await runtime.requests.wait(task.task_id)
        got = await read_all(lazy)
        assert "message_complete" not in got
        last = frames(got)[-1][0] if frames(got) else "0"
        query = {"conversationId": started.json()["id"], "lastEventId": last}
        rest = await client.get(f"{CHAT}/stream", params=query)
        values = [frame.get("delta", "") for _, frame in frames(got) + frames(rest.text)]
        assert len("".join(values)) == 1000 * len(long)


async def connect(url: str, body: str) -> socket.socket:
    """Send a request, and read nothing of the answer."""
    host, port = url.removeprefix("http://").strip("/").split(":")
    lazy = socket.socket()
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    lazy.settimeout(0)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(lazy, (host, int(port)))
    head = (
        f"POST {CHAT} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    await loop.sock_sendall(lazy, (head + body).encode())
    return lazy


async def read_all(lazy: socket.socket) -> str:
    """Read what there is, to the end."""
    loop, got = asyncio.get_running_loop(), b""
    while chunk := await loop.sock_recv(lazy, 65_536):
        got += chunk
    lazy.close()
    text = got.decode(errors="replace")
    return text[: text.rfind("\n\n") + 2]


@pytest.mark.slow("a real server, and streams to their limits")
async def test_a_stop_suspends_the_work_and_the_next_start_resumes_it(tmp_path: Path) -> None:
    """Server shutdown: the stream is cut without a last frame; the client reconnects."""
    url = f"sqlite:///{tmp_path}/penstock.db"
    model = ScriptedModel([say("Hel") + wait(Hold())])
    async with (
        in_memory(model=model, url=url, limits=LIMITS) as runtime,
        client_of(runtime) as (app, client),
    ):
        async with client.stream("POST", CHAT, json=ASK) as response:
            coming = blocks(response)
            seen = [await anext(coming) for _ in range(3)]
            app.state.lifecycle.drain()
            assert [block async for block in coming] == []
        refused = await client.get("/api/agents")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "NOT_READY")
        assert (await client.get("/api/ready")).status_code == 503
        assert (await client.get("/api/health")).status_code == 200
    query = {"conversationId": response.headers["x-conversation-id"]}
    headers = {"last-event-id": frames(seen[-1])[0][0]}
    model = ScriptedModel([say("Hello again.")])
    async with in_memory(model=model, url=url) as runtime, client_of(runtime) as (_, client):
        rest = await client.get(f"{CHAT}/stream", params=query, headers=headers)
    assert types(rest.text) == ["content_reset", "thinking", "content_delta", "message_complete"]
    assert frames(rest.text)[-1][1]["content"] == "Hello again."
