"""The HTTP server: its routes, and what stands before them."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.app.runtime import Runtime
from penstock.app.sections import RateSection, ServerSection
from penstock.core.errors import BadRequest, PenstockError
from penstock.core.exhaustion import exhaustion_of
from penstock.core.ids import new_id
from penstock.server.auth import Authenticator
from penstock.server.context import FULL, ServerContext, ServerLifecycle
from penstock.server.pages import page, sign_in, transcript, web_links
from penstock.server.requests.cookies import Cookies
from penstock.server.requests.problem import (
    answer,
    on_error,
    on_http_error,
    problem,
    unexpected,
)
from penstock.server.requests.rates import Rates, WrongKeys
from penstock.server.routes import (
    agents,
    blobs,
    calls,
    chat,
    conversations,
    flow_runs,
    flows,
    health,
    metrics,
    permissions,
    questions,
    tasks,
    vault,
)
from penstock.server.schemas.openapi import document
from penstock.server.streams.sse import LEFT, EventStream

log = logging.getLogger(__name__)

OpenRuntime = Callable[[], AbstractAsyncContextManager[Runtime]]
ROUTERS = (
    health.router,
    agents.router,
    chat.router,
    conversations.router,
    metrics.router,
    tasks.router,
    questions.router,
    calls.router,
    flows.router,
    flow_runs.router,
    blobs.router,
    vault.router,
    web_links.router,
    sign_in.router,
    transcript.router,
    permissions.router,
    page.router,
)
_DRAIN_SECONDS = 0.5
"""How long the body of a request that is refused is read."""
_NEW_OBJECTS = 50_000
"""Between two looks for cycles: what a few hundred messages make."""
_EXPOSED = ["X-Conversation-Id", "X-Task-Id", "X-Request-Id"]


def create_application(
    runtime: Runtime | OpenRuntime,
    *,
    server: ServerSection | None = None,
    rates: RateSection | None = None,
) -> FastAPI:
    """Return the server of a runtime, or of one that is opened and closed with the server.

    Before it stops, `application.state.lifecycle.drain()` ends the streams.
    """
    server = server or ServerSection()
    lifecycle = ServerLifecycle()
    app = Application(
        title="penstock",
        version=health.VERSION,
        description="Chat with agents, follow what they do, answer what they ask.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # its Location repeats the Host that the client sent
        lifespan=_lifespan(runtime, lifecycle),
    )
    app.state.lifecycle = lifecycle
    app.state.cookies, app.state.wrong_keys = Cookies(server), WrongKeys()
    if isinstance(runtime, Runtime):
        lifecycle.context = ServerContext.build(runtime, lifecycle)
    app.router.routes[:0] = [calls.DOCUMENT, chat.SEND]
    for router in ROUTERS:
        app.router.routes += router.routes  # to include a router is to read its routes once more
    app.add_exception_handler(PenstockError, on_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, _on_bad_query)
    counted = Rates(rates or RateSection())
    app.add_middleware(Authenticator, lifecycle=lifecycle, server=server, rates=counted)
    if server.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=server.cors_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=_EXPOSED,
        )
    app.add_middleware(ErrorMiddleware)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    return app


class Application(FastAPI):
    """Goes on with a stream outside of all that is around its routes, which would wait with it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        left: list[EventStream] = []
        await super().__call__({**scope, LEFT: left}, receive, send)
        for stream in left:
            try:
                await stream.run(receive, send)
            except Exception as error:
                unexpected(error, stream.request_id)


class ErrorMiddleware:
    """Gives each request an id, and turns what nobody expected into an answer without details."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False
        request_id = scope["penstock.request_id"] = new_id("req")

        async def stamped(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start":
                own = (b"x-request-id", request_id.encode())
                message["headers"] = [*message.get("headers", ()), own]
            await send(message)

        try:
            await self._app(scope, receive, stamped)
        except ClientDisconnect:
            log.info("request %s: its client went away in the middle of the body", request_id)
        except Exception as error:
            lack = exhaustion_of(error)
            refusal = problem(lack, request_id) if lack else unexpected(error, request_id)
            if not begun:
                await refusal(scope, receive, stamped)


async def refuse_as_full(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request of a connection too many: 503 but for health, and the connection ends.

    The rest of its body is read first, for a moment: a connection that is closed before is reset,
    and its client never sees the answer.
    """
    more = True

    async def noting() -> Message:
        nonlocal more
        received = await receive()
        more = received.get("more_body", False)
        return received

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            with suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_SECONDS):
                    while more:
                        await noting()
            message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
        await send(message)

    await app({**scope, FULL: True}, noting, closing)


def _lifespan(
    runtime: Runtime | OpenRuntime, lifecycle: ServerLifecycle
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if isinstance(runtime, Runtime):
            yield
            return
        async with runtime() as opened:
            lifecycle.context = ServerContext.build(opened, lifecycle)
            _keep_what_is_loaded()
            yield
            lifecycle.drain()

    return lifespan


def _keep_what_is_loaded() -> None:
    """Spare the collector what lives as long as the process, and most of what dies young anyway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])


async def _on_bad_query(request: Request, error: Exception) -> Response:
    """Name every value of a query or a header that cannot be read."""
    errors: list[dict[str, Any]] = list(getattr(error, "errors", list)())
    details = [
        {"field": "/" + "/".join(map(str, each["loc"][1:])), "issue": each["msg"]}
        for each in errors
    ]
    said = "; ".join(f"{each['field'].removeprefix('/')}: {each['issue']}" for each in details)
    return answer(400, BadRequest.code, f"the request cannot be read: {said}", details=details)
