"""A server that listens on a real port of this machine, in its own thread."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI

from penstock.app.runtime import Runtime
from penstock.cli.serve.connection import ConnectionLimit
from penstock.cli.serve.server import Server, bind
from penstock.core.limits import Limits
from penstock.models.scripted import Hold, ScriptedModel, say, wait
from penstock.server.application import create_application
from tests.kit.server import in_memory

Open = Callable[[], AbstractAsyncContextManager[Runtime]]


class Quiet(uvicorn.Server):
    """A server that installs no signal handlers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class QuietServer(Server):
    """The server of `penstock serve` without signal handlers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server_of(app: FastAPI) -> Quiet:
    """Return a server that stops when `should_exit` is set."""
    config = uvicorn.Config(app, log_level="critical", lifespan="on", timeout_graceful_shutdown=2)
    return Quiet(config)


@asynccontextmanager
async def listening(app: FastAPI) -> AsyncIterator[str]:
    """Serve in this event loop; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = server_of(app)
        running = asyncio.create_task(server.serve([bound]))
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            app.state.lifecycle.drain()
            server.should_exit = True
            await running


@contextmanager
def in_a_thread(open_runtime: Open) -> Iterator[str]:
    """Serve in a thread; yield the address."""
    ready, stop = threading.Event(), asyncio.Event()
    started: list[tuple[str, asyncio.AbstractEventLoop]] = []

    async def work() -> None:
        async with open_runtime() as runtime, listening(create_application(runtime)) as url:
            started.append((url, asyncio.get_running_loop()))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        assert ready.wait(10)
        yield started[0][0]
    finally:
        started[0][1].call_soon_threadsafe(stop.set)
        thread.join()


@asynccontextmanager
async def bounded_server(
    protocol: type[asyncio.Protocol],
    limits: Limits,
    room: ConnectionLimit,
    *,
    application: Callable[[Runtime], FastAPI] = create_application,
) -> AsyncIterator[int]:
    """Serve a runtime as `penstock serve` does; yield the port. Its model hangs at "ask"."""
    model = ScriptedModel({"": say("Hello."), "ask": wait(Hold())})
    bound = bind("127.0.0.1", 0)
    async with in_memory(model=model, limits=limits) as runtime:
        ready = asyncio.Event()
        app = application(runtime)
        server = QuietServer(app, limits, room, protocol=protocol, ready=ready.set)
        running = asyncio.create_task(server.serve([bound]))
        await ready.wait()
        try:
            yield bound.getsockname()[1]
        finally:
            server.should_exit = True
            await running
