"""Serves a project over HTTP, and prints its address and a command to try."""

import asyncio
import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Any

import typer
import uvicorn

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import Tier
from penstock.agents.tool_offer import definition, offered
from penstock.app.opening import check_strict, open_project
from penstock.app.reload import ProjectReloader
from penstock.app.runtime import Runtime
from penstock.cli.options import Folder, ProjectFolder
from penstock.cli.project import ReadProject, find, print_all_findings
from penstock.cli.serve.server import Server, bind, room_of, shortage
from penstock.cli.terminal.output import note, say
from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.core.ids import ASSISTANT
from penstock.core.json_values.schema import Schema
from penstock.core.messages import UserMessage
from penstock.core.text import count
from penstock.models.model import ModelRequest, ToolDefinition
from penstock.models.offline import decide
from penstock.models.offline_choice import harmless_without_input
from penstock.server.application import create_application
from penstock.server.auth import check_bind
from penstock.tools.policy import SCRIPT
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Tool

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
    chosen = {"host": host, "port": port}
    server = {name: value for name, value in chosen.items() if value is not None}
    tools = {"strict": True} if strict else {}
    read = find(folder or project, server=server, tools=tools)
    check_strict(read.settings, read.project)
    print_all_findings(read.project)
    factory = uvicorn.Config("", loop="auto").get_loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(read, is_watched=watch))


async def _serve(read: ReadProject, *, is_watched: bool) -> None:
    room, limits = room_of(read.settings.limits)
    settings = read.settings.model_copy(update={"limits": limits})
    if warning := shortage(room, limits, read.settings.limits):
        note(warning)
    async with AsyncExitStack() as closing:
        runtime = await closing.enter_async_context(open_project(settings, read.project))
        database_parts = runtime.parts.storage.database_parts
        await check_bind(
            settings.server.host, None if database_parts is None else database_parts.keys
        )
        listening = bind(settings.server.host, settings.server.port)
        app = create_application(runtime, server=settings.server, rates=settings.rate_limits)
        needs_key = database_parts is not None and await database_parts.keys.exist()
        if is_watched:
            reloader = ProjectReloader(runtime=runtime, settings=settings, first=read.project)
            await closing.enter_async_context(reloader.watched(note))
        ready = banner(read, runtime, listening.getsockname()[:2], needs_key=needs_key)
        await Server(app, runtime.parts.world.limits, room, ready=partial(say, ready)).serve(
            [listening]
        )
    say("Stopped. Unfinished tasks continue at the next start.")


TRY = "Try a tool"
"""A message on which the offline model calls a tool that needs no input."""
GREETING = "Hello"
_SAMPLES = {"string": "Ann", "integer": 1, "number": 1, "boolean": True}


def banner(
    read: ReadProject, runtime: Runtime, address: tuple[str, int], *, needs_key: bool
) -> str:
    """Return the address of the server, and a curl command that makes the assistant call a tool."""
    host, port = address
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    parts = runtime.parts
    agents = ", ".join(agent.name for agent in parts.chat.agents if not _is_of_flows(agent))
    tools = count(len(list(parts.tools.invoker.registry)), "tool")
    key = ' -H "authorization: Bearer $KEY"' if needs_key else ""
    body = {"content": first_words(_offered(runtime)), "stream": True}
    request_body = shlex.quote(json.dumps(body, ensure_ascii=False, separators=(",", ":")))
    is_python = any(each.spec.kind != SCRIPT for each in read.project.tools)
    warning = "\nIts tools/*.py run in this process, with all its rights." if is_python else ""
    return (
        f"penstock serves {read.project.root} on {url}\n"
        f"  agents: {agents}; model: {parts.chat.models.default}; {tools}{warning}\n\n"
        f"  Open {url}/ in a browser, or paste\n\n"
        f"  curl -N {url}/api/agents/{ASSISTANT}/chat{key} -H 'content-type: application/json' "
        f"-d {request_body}\n\n"
        "Ctrl-C stops it."
    )


def first_words(tools: Sequence[Tool]) -> str:
    """Return a message on which the offline model calls one of these tools.

    Prefers a tool of the project, and a tool that neither writes nor asks for approval: a person
    pastes this line without reading it.
    """
    definitions = [definition(tool) for tool in tools]
    for words in _candidates(tools):
        request = ModelRequest(system="", messages=[UserMessage(words)], tools=definitions)
        if decide(request).calls:
            return words
    return GREETING


def _offered(runtime: Runtime) -> Sequence[Tool]:
    parts = runtime.parts
    return offered(parts.chat.agents.get(ASSISTANT), parts.tools.invoker, runtime.local)


def _candidates(tools: Sequence[Tool]) -> Iterator[str]:
    harmless = {each.spec.tool_id: definition(each) for each in tools if _is_harmless(each.spec)}
    without_input = harmless_without_input(map(definition, tools))
    if without_input is not None and without_input.name in harmless:
        yield TRY
    for name, tool in harmless.items():
        if (sample := _sample(tool)) is not None:
            yield f"{name} {_pairs(sample)}".rstrip()
    yield TRY


def _is_harmless(spec: ToolSpec) -> bool:
    is_own = spec.kind != "builtin"
    return is_own and spec.effect is not Effect.WRITE and spec.requires_approval is False


def _sample(tool: ToolDefinition) -> Json | None:
    """Return an input with all required members; None if one cannot be guessed."""
    schema = tool.parameters
    properties = schema.get("properties") or {}
    sample: dict[str, Any] = {}
    for name in schema.get("required") or ():
        value = _value(properties.get(name))
        if value is None:
            return None
        sample[name] = value
    return None if Schema(schema).problems(sample) else sample


def _value(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return None
    known = [*schema.get("examples", ()), *schema.get("enum", ())]
    value = schema.get("default", known[0] if known else _SAMPLES.get(str(schema.get("type"))))
    return value if isinstance(value, str | int | float) else None


def _pairs(sample: Json) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in sample.items())


def _text(value: Any) -> str:
    is_word = isinstance(value, str) and len(value.split()) == 1
    return str(value) if is_word else json.dumps(value, ensure_ascii=False)


def _is_of_flows(agent: Agent) -> bool:
    """Whether an agent is one of the built-in agents for flows, which the banner leaves out."""
    return agent.has_file and agent.profile.tier is Tier.BUILT_IN
