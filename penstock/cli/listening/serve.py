"""Serves a project over HTTP."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated

import typer
import uvicorn

from penstock.app.opening import check_strict, open_project
from penstock.app.reload import ProjectReloader
from penstock.cli.arguments.options import Folder, ProjectFolder
from penstock.cli.arguments.project import ReadProject, find
from penstock.cli.listening.banner import banner
from penstock.cli.listening.descriptors import room_of, shortage
from penstock.cli.listening.server import Server, bind
from penstock.cli.terminal.findings import tell_all
from penstock.cli.terminal.output import note, say
from penstock.server.application import create_application
from penstock.server.auth import check_bind

Host = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="The address. Default: from the settings."),
]
Port = Annotated[
    int | None, typer.Option("--port", min=0, max=65535, help="The port; 0: any free port.")
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Reload changed tools, skills and agents while serving.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Do not start if the project files have errors.")
]


def serve(
    folder: Folder = None,
    *,
    host: Host = None,
    port: Port = None,
    watch: Watch = False,
    strict: Strict = False,
    project: ProjectFolder = None,
) -> None:
    """Serve the project over HTTP until Ctrl-C."""
    given = {"host": host, "port": port}
    server = {name: value for name, value in given.items() if value is not None}
    tools = {"strict": True} if strict else {}
    found = find(folder or project, server=server, tools=tools)
    check_strict(found.settings, found.project)
    tell_all(found.project)
    factory = uvicorn.Config("", loop="auto").get_loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(found, is_watched=watch))


async def _serve(found: ReadProject, *, is_watched: bool) -> None:
    room, limits = room_of(found.settings.limits)
    settings = found.settings.model_copy(update={"limits": limits})
    if warning := shortage(room, limits, found.settings.limits):
        note(warning)
    async with AsyncExitStack() as closing:
        runtime = await closing.enter_async_context(open_project(settings, found.project))
        database_parts = runtime.parts.database_parts
        await check_bind(
            settings.server.host, None if database_parts is None else database_parts.keys
        )
        listening = bind(settings.server.host, settings.server.port)
        app = create_application(runtime, server=settings.server, rates=settings.rate_limits)
        needs_key = database_parts is not None and await database_parts.keys.exist()
        if is_watched:
            reloader = ProjectReloader(runtime=runtime, settings=settings, first=found.project)
            await closing.enter_async_context(reloader.watched(note))
        ready = banner(found, runtime, listening.getsockname()[:2], needs_key=needs_key)
        await Server(app, runtime.parts.limits, room, ready=partial(say, ready)).serve([listening])
    say("Stopped. Unfinished tasks continue at the next start.")
