"""The HTTP server of a project."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Annotated, Any

import typer
import uvicorn

from penstock.app.opening import check_strict, open_project
from penstock.app.reload import ProjectReloader
from penstock.cli.arguments.options import Folder, ProjectFolder
from penstock.cli.arguments.project import ReadProject, find
from penstock.cli.banner import banner
from penstock.cli.terminal.findings import tell_all
from penstock.cli.terminal.output import note
from penstock.cli.terminal.plain import clean
from penstock.core.errors import ConfigError
from penstock.server.application import create_application
from penstock.server.auth import check_bind

Host = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="The address; else that of the settings."),
]
Port = Annotated[
    int | None, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Take up changed tools, skills and agents while serving.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Do not start while anything is wrong with the files.")
]
_BACKLOG = 2048


def serve(
    folder: Folder = None,
    *,
    host: Host = None,
    port: Port = None,
    watch: Watch = False,
    strict: Strict = False,
    project: ProjectFolder = None,
) -> None:
    """Serve the project over HTTP, until Ctrl-C."""
    given = {"host": host, "port": port}
    server = {name: value for name, value in given.items() if value is not None}
    tools = {"strict": True} if strict else {}
    found = find(folder or project, server=server, tools=tools)
    check_strict(found.settings, found.project)
    tell_all(found.project)
    factory = uvicorn.Config("", loop="auto").get_loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(found, is_watched=watch))


class Server(uvicorn.Server):
    """Says when it is ready; ends open streams before it stops, so that clients come back."""

    def __init__(self, config: uvicorn.Config, drain: Any, ready: str) -> None:
        super().__init__(config)
        self._drain = drain
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGINT and SIGTERM; what was opened around the server is closed after it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        print(self._ready, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then stop."""
        self._drain()
        await super().shutdown(sockets)


async def _serve(found: ReadProject, *, is_watched: bool) -> None:
    settings = found.settings
    async with AsyncExitStack() as closing:
        runtime = await closing.enter_async_context(open_project(settings, found.project))
        database_parts = runtime.parts.database_parts
        await check_bind(
            settings.server.host, None if database_parts is None else database_parts.keys
        )
        listening = _bind(settings.server.host, settings.server.port)
        app = create_application(runtime, server=settings.server, rates=settings.rate_limits)
        config = uvicorn.Config(
            app,
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # the entrance reads them, of [server] trusted_proxies alone
            ws="none",
            timeout_graceful_shutdown=int(runtime.parts.limits.shutdown_seconds) or 1,
        )
        needs_key = database_parts is not None and await database_parts.keys.exist()
        if is_watched:
            reloader = ProjectReloader(runtime=runtime, settings=settings, first=found.project)
            await closing.enter_async_context(reloader.watched(lambda said: note(clean(said))))
        ready = banner(found, runtime, listening.getsockname()[:2], needs_key=needs_key)
        await Server(config, app.state.lifecycle.drain, ready).serve([listening])
    print("Stopped. What was at work goes on at the next start.")


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host.strip("[]"), port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be bound: {error.strerror}. Choose another with --host, --port."
        ) from None
    # what is accepted inherits it; without it every answer waits 40 ms for an acknowledgement
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound
