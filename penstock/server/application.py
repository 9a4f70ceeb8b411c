"""The HTTP application: its routes and its middleware.

Every answer has an `X-Request-Id`, and no unexpected exception reaches a client: `ErrorMiddleware`
is outermost and catches everything. Admission (`Authenticator`) comes before routing, so a new
route needs a key until `auth.OPEN` lists it. A stream runs after the middleware of its request has
returned (`Application`); inside it, every open stream would keep all those calls waiting.

Tests: tests/server/test_application.py, tests/server/test_auth.py.
"""

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
from penstock.app.settings_sections import RateSection, ServerSection
from penstock.core.errors import BadRequest, PenstockError
from penstock.core.exhaustion import exhaustion_of
from penstock.core.ids import new_id
from penstock.server import page, plain_pages
from penstock.server.auth import Authenticator, Cookies
from penstock.server.context import FULL, ServerContext, ServerLifecycle
from penstock.server.openapi import document
from penstock.server.problem import (
    error_response,
    on_error,
    on_http_error,
    problem,
    unexpected,
)
from penstock.server.rates import Rates, WrongKeys
from penstock.server.routes import (
    agents,
    blobs,
    calls,
    chat,
    conversations,
    flow_runs,
    flows,
    health,
    questions,
    replays,
    retries,
    schedules,
    tasks,
    vault,
    webhooks,
)
from penstock.server.streams.sse import DETACHED, EventStream

log = logging.getLogger(__name__)

OpenRuntime = Callable[[], AbstractAsyncContextManager[Runtime]]
ROUTERS = (
    health.router,
    agents.router,
    chat.router,
    conversations.router,
    agents.metrics_router,
    tasks.router,
    questions.router,
    replays.router,
    retries.router,
    calls.router,
    flows.router,
    flow_runs.router,
    schedules.router,
    blobs.router,
    vault.router,
    webhooks.router,
    plain_pages.web_links_router,
    plain_pages.sign_in_router,
    plain_pages.transcript_router,
    agents.permissions_router,
    page.router,
)
_DRAIN_SECONDS = 0.5
"""How long the rest of a refused request's body is read."""
_NEW_OBJECTS = 50_000
"""Allocations between two garbage collections: those of a few hundred messages."""
_EXPOSED = ["X-Conversation-Id", "X-Task-Id", "X-Request-Id"]


def create_application(
    runtime: Runtime | OpenRuntime,
    *,
    server: ServerSection | None = None,
    rates: RateSection | None = None,
) -> FastAPI:
    """Return the application of a runtime, or of one that opens and closes with the server.

    To stop it, call `application.state.lifecycle.drain()` first: that ends the streams.
    """
    server = server or ServerSection()
    lifecycle = ServerLifecycle(server)
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
        app.router.routes += router.routes  # include_router would parse each route again
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
    """Runs streams after the middleware of their request has returned."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        detached: list[EventStream] = []
        await super().__call__({**scope, DETACHED: detached}, receive, send)
        for stream in detached:
            try:
                await stream.run(receive, send)
            except Exception as error:
                unexpected(error, stream.request_id)


class ErrorMiddleware:
    """Gives each request an id, and answers unexpected exceptions without details."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False
        request_id = scope["penstock.request_id"] = new_id("req")

        async def stamped(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":
                own = (b"x-request-id", request_id.encode())
                message["headers"] = [*message.get("headers", ()), own]
            await send(message)

        try:
            await self._app(scope, receive, stamped)
        except ClientDisconnect:
            log.info("request %s: the client disconnected before it had sent the body", request_id)
        except Exception as error:
            lack = exhaustion_of(error)
            refusal = problem(lack, request_id) if lack else unexpected(error, request_id)
            if not started:
                await refusal(scope, receive, stamped)


async def refuse_as_full(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request over the connection limit with 503, except health, and disconnect.

    The rest of the body is read first, for up to `_DRAIN_SECONDS`: closing a connection with
    unread data resets it, and the client would not see the answer.
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
            _freeze_loaded_objects()
            yield
            lifecycle.drain()

    return lifespan


def _freeze_loaded_objects() -> None:
    """Exempt the objects loaded so far from garbage collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])


async def _on_bad_query(request: Request, error: Exception) -> Response:
    """Report every invalid value of the query and the headers."""
    errors: list[dict[str, Any]] = list(getattr(error, "errors", list)())
    details = [
        {"field": "/" + "/".join(map(str, error_part["loc"][1:])), "issue": error_part["msg"]}
        for error_part in errors
    ]
    problems = "; ".join(f"{each['field'].removeprefix('/')}: {each['issue']}" for each in details)
    return error_response(
        400, BadRequest.code, f"the request cannot be read: {problems}", details=details
    )
