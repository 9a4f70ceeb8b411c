"""A server over a database in memory, and a client that reads its streams."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI

from penstock.agents.agent import Agent
from penstock.agents.catalog import Catalog
from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import (
    DatabaseParts,
    DeclaredAgents,
    DeclaredTools,
    ProjectParts,
    Storage,
)
from penstock.app.settings_sections import RateSection, ServerSection
from penstock.app.wiring import assemble
from penstock.core.clock import Clock, SystemClock
from penstock.core.ids import ProfileId, new_id
from penstock.core.limits import Limits, World
from penstock.models.model import Model
from penstock.models.resolve import ModelRegistry
from penstock.models.scripted import ScriptedModel, say
from penstock.resources.cipher import Cipher
from penstock.resources.signed_links import Links
from penstock.resources.sql_stores import SqlFiles, SqlMedia, SqlState
from penstock.server.application import create_application
from penstock.store.blobs import open_blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.owners import this_process
from penstock.store.logs.sql_log import SqlLog
from penstock.store.sql_projections import SqlProjections
from penstock.testing.clock import settle
from penstock.tools.policy import RuleSet
from penstock.tools.tool import Registry, Tool

HERE = "http://localhost"
CHAT = "/api/agents/assistant/chat"
CLOCK = SystemClock()
LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class InMemoryServer:
    """A server, its runtime, and a client in this process."""

    app: FastAPI
    runtime: Runtime
    client: httpx2.AsyncClient

    @property
    def database_parts(self) -> DatabaseParts:
        """The database."""
        database_parts = self.runtime.parts.storage.database_parts
        assert database_parts is not None
        return database_parts

    async def say(self, content: str, **more: Any) -> httpx2.Response:
        """Send a message, and wait for the answer."""
        return await self.client.post(CHAT, json={"content": content} | more)

    async def stream(self, content: str, **more: Any) -> httpx2.Response:
        """Send a message, and read the whole stream."""
        return await self.say(content, stream=True, **more)

    async def follow(self, conversation: str, **query: Any) -> httpx2.Response:
        """Read the whole stream of a conversation."""
        return await self.client.get(
            f"{CHAT}/stream", params={"conversationId": conversation} | query
        )


@asynccontextmanager
async def in_memory(
    *,
    model: Model | None = None,
    tools: Iterable[Tool] = (),
    agents: Iterable[Agent] = (),
    clock: Clock = CLOCK,
    limits: Limits = LIMITS,
    url: str | Database = "sqlite://",
    **more: Any,
) -> AsyncIterator[Runtime]:
    """Open a runtime, its database in memory; it says "Hello." unless it has a model."""
    model = model or ScriptedModel({"": say("Hel", "lo.")})
    models = ModelRegistry(default=model.card.model_id, limits=limits)
    models.add(model)
    project_parts = ProjectParts(
        tools=DeclaredTools(registry=Registry(tools), rules=RuleSet(())),
        agents=DeclaredAgents(catalog=Catalog(agents), models=models),
        **more,
    )
    database = await open_database(url, limits=limits) if isinstance(url, str) else url
    blobs = open_blobs("memory:///", clock)
    storage = Storage(
        log=SqlLog(database, blobs, clock),
        projections=SqlProjections(database, blobs),
        blobs=blobs,
        key=database.secret,
        links=Links(database.secret, clock),
        owner=this_process(new_id("run")),
        database_parts=DatabaseParts(database, blobs, clock, Cipher([bytes(32)])),
        files=SqlFiles(database, clock),
        state=SqlState(database, clock),
        media=SqlMedia(database, clock),
    )
    runtime = assemble(World(clock, limits, new_id), storage, project_parts)
    await runtime.parts.engine.launcher.open()
    try:
        yield runtime
    finally:
        await runtime.close()
        await database.close()


@asynccontextmanager
async def served(
    *, server: ServerSection | None = None, rates: RateSection | None = None, **opened: Any
) -> AsyncIterator[InMemoryServer]:
    """Serve a runtime to a client in this process."""
    async with in_memory(**opened) as runtime:
        app = create_application(runtime, server=server, rates=rates)
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            yield InMemoryServer(app, runtime, client)


@asynccontextmanager
async def database_at(tmp_path: Path, **limits: float) -> AsyncIterator[Database]:
    """Open a database with one reader, which a test may keep busy or close."""
    own = Limits(readers=1, **limits)  # type: ignore[arg-type]
    database = await open_database(f"sqlite:///{tmp_path / 'one.db'}", limits=own)
    try:
        yield database
    finally:
        await database.close()


async def use_key(
    server: InMemoryServer, name: str, *permissions: str, profile: str | None = None
) -> None:
    """Send all further requests with a new key, of its own profile or of another one."""
    owner = None if profile is None else ProfileId(profile)
    keys = server.database_parts.keys
    key = await keys.create(name, profile_id=owner, permissions=permissions)
    server.client.headers["authorization"] = f"Bearer {key}"


@asynccontextmanager
async def hanging(database: Database) -> AsyncIterator[None]:
    """Block every read until the block ends."""
    answered = threading.Event()
    held = asyncio.create_task(database.read(lambda _: answered.wait(20)))
    await settle(rounds=2)
    try:
        yield
    finally:
        answered.set()
        await held


def frames(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the frames of a stream, each with its id."""
    received = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in lines:
            received.append((lines.get("id", ""), json.loads(lines["data"])))
    return received


def types(text: str) -> list[str]:
    """Return the types of the frames of a stream."""
    return [frame["type"] for _, frame in frames(text)]


async def blocks(response: httpx2.Response) -> AsyncIterator[str]:
    """Yield the frames of a stream as they arrive."""
    text = ""
    async for chunk in response.aiter_text():
        text += chunk
        while "\n\n" in text:
            block, text = text.split("\n\n", 1)
            if "data: " in block:
                yield block + "\n\n"
