"""The application: unknown paths, unexpected errors, opening and draining."""

from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response

from penstock.app.settings_sections import ServerSection
from penstock.chat.log_follower import LogTail
from penstock.core.ids import LogId, SessionId
from penstock.core.profile import LOCAL_PROFILE
from penstock.server.application import create_application, refuse_as_full
from penstock.server.context import FULL, ServerContext, ServerLifecycle
from penstock.server.streams.frame import Position
from penstock.server.streams.sse import EventStream
from penstock.server.streams.wire import ChatFrames, StreamView
from tests.kit.server import CHAT, HERE, in_memory, served, types


async def test_a_missing_path_is_reported_in_the_error_format() -> None:
    async with served() as server:
        response = await server.client.get("/api/nope")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND")
        wrong = await server.client.patch("/api/agents")
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")
        assert wrong.headers["allow"] == "GET"
        both = await server.client.patch("/api/agents/assistant/chat")
        assert both.headers["allow"] == "DELETE, GET, POST"


async def test_an_unexpected_error_shows_only_a_request_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served() as server:

        async def broken(request: Request) -> None:
            raise RuntimeError("a secret")

        server.app.add_api_route("/api/broken", broken)
        response = await server.client.get("/api/broken")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.json()["error"]["details"]["requestId"] == response.headers["x-request-id"]
    assert "a secret" in caplog.text


async def test_a_lack_of_files_or_threads_is_503_with_retry_after() -> None:
    async with served() as server:

        async def broken(request: Request) -> None:
            raise RuntimeError("can't start new thread")

        server.app.add_api_route("/api/broken", broken)
        response = await server.client.get("/api/broken")
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert response.json()["error"]["code"] == "NOT_READY"


async def test_pages_of_listed_origins_can_use_the_api() -> None:
    """Chat API 10.1: "Every answer has `X-Request-Id`", also one before the request."""
    section = ServerSection(cors_origins=("https://app.example",))
    async with served(server=section) as server:
        headers = {"origin": "https://app.example", "access-control-request-method": "POST"}
        asked = await server.client.options("/api/agents", headers=headers)
        assert asked.headers["access-control-allow-origin"] == "https://app.example"
        assert asked.headers["x-request-id"].startswith("req_")
        got = await server.client.get("/api/agents", headers=headers)
        assert "X-Task-Id" in got.headers["access-control-expose-headers"]


async def test_a_stream_has_the_headers_of_every_middleware() -> None:
    section = ServerSection(cors_origins=("https://app.example",))
    async with served(server=section) as server:
        streamed = await server.client.post(
            CHAT,
            json={"content": "Hello", "stream": True},
            headers={"origin": "https://app.example"},
        )
    assert streamed.headers["x-request-id"].startswith("req_")
    assert streamed.headers["access-control-allow-origin"] == "https://app.example"
    assert types(streamed.text)[-1] == "message_complete"


async def test_pages_of_unlisted_origins_cannot_use_the_api() -> None:
    async with served() as server:
        headers = {"origin": "http://localhost:9", "access-control-request-method": "POST"}
        response = await server.client.options("/api/agents", headers=headers)
        assert "access-control-allow-origin" not in response.headers


@pytest.mark.usefixtures("new_garbage")
async def test_a_runtime_is_opened_and_closed_with_the_server() -> None:
    states = []

    @asynccontextmanager
    async def opened() -> Any:
        async with in_memory() as runtime:
            states.append("open")
            yield runtime
        states.append("closed")

    app = create_application(opened)
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
        assert (await client.get("/api/agents")).status_code == 503
        async with app.router.lifespan_context(app):
            assert (await client.get("/api/agents")).status_code == 200
        assert (await client.get("/api/agents")).status_code == 503
    assert states == ["open", "closed"]


async def test_draining_before_the_project_is_open_is_safe() -> None:
    lifecycle = ServerLifecycle()
    lifecycle.drain()
    assert lifecycle.is_draining


async def test_a_broken_stream_is_logged_and_frees_its_slot(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served() as server:
        context: ServerContext = server.app.state.lifecycle.get()

        async def broken(request: Request) -> Response:
            tail = LogTail(context.source, LogId("conv_1"), after=0, stored=False)
            frames = ChatFrames(StreamView(SessionId("conv_1"), str, 8), Position(0))
            no_json: Any = ("1", {"type": object()})
            place = context.streams.enter(LOCAL_PROFILE)
            return EventStream(tail, frames, place, headers={}, first=[no_json])

        server.app.add_route("/api/broken", broken)
        with pytest.raises(AssertionError):  # of the client: the answer has no end
            await server.client.get("/api/broken")
    assert "request req_" in caplog.text
    assert "not JSON serializable" in caplog.text
    assert context.streams.open == 0


@pytest.mark.parametrize("chunks", [1, 3])
async def test_a_connection_over_the_limit_is_refused_after_its_body_and_closed(
    chunks: int,
) -> None:
    heard: list[int] = []
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope[FULL] is True
        await receive()
        await send({"type": "http.response.start", "status": 503, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"full"})

    async def receive() -> Any:
        heard.append(len(sent))
        return {"type": "http.request", "body": b"x", "more_body": len(heard) < chunks}

    async def send(message: Any) -> None:
        sent.append(message)

    await refuse_as_full(app, {"type": "http"}, receive, send)
    assert heard == [0] * chunks
    start, body = sent
    assert start["headers"] == [(b"a", b"b"), (b"connection", b"close")]
    assert body == {"type": "http.response.body", "body": b"full"}


async def test_the_server_stops_reading_the_body_of_a_client_that_left() -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 503})

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await refuse_as_full(app, {"type": "http"}, receive, send)
    assert [each["headers"] for each in sent] == [[(b"connection", b"close")]]
