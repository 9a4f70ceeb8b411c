"""Retention collects all that tasks leave: children, retries, forks, undos, work of schedules."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from penstock import ToolContext, tool
from penstock.app.runtime import Runtime
from penstock.chat.schedules.definition import NewSchedule
from penstock.core.limits import Limits
from penstock.models.scripted import ScriptedModel, call, fail, say
from penstock.store.database import Database, open_database
from penstock.store.projections import Page
from penstock.store.tables import metadata
from penstock.store.upkeep.retention import Retention
from penstock.store.upkeep.rules import RetentionRule
from penstock.testing.clock import FakeClock
from tests.kit.server import in_memory

DAY = 24 * 3600
RULES = [RetentionRule(of=each, days=30) for each in ("conversations", "calls", "runs")]
LIMITS = Limits(shutdown_seconds=0)
KEPT = {"alembic_version", "installation", "loose_blobs", "schedules"}
"""Tables with no rows about tasks; a schedule stays until somebody deletes it."""


@tool
def give_back(input: dict[str, Any], output: str) -> str:
    """Give back what was taken."""
    return "given back"


@tool(revert=give_back)
def take(item: str) -> str:
    """Take something."""
    return f"took {item}"


@tool(effect="write", direct_call=True)
async def split(ctx: ToolContext) -> list[str]:
    """Split the work into two children, of which one fails."""
    children = [await ctx.spawn(name, key=name) for name in ("the apples", "the pears")]
    results = await ctx.gather(*children, settled=True)
    return [str(each) for each in results]


MODEL = {
    "Split it.": [call("split"), call("take", item="tea"), say("All done.")],
    "the apples": [say("3 EUR")],
    "the pears": [fail(400), fail(400)],
    "What is new?": [say("Nothing.")],
}


class World:
    """A runtime with a clock that a test moves, and its database."""

    def __init__(self, runtime: Runtime, database: Database, clock: FakeClock) -> None:
        self.runtime, self.database, self.clock = runtime, database, clock

    async def rest(self) -> None:
        """Wait until nothing runs."""
        await self.runtime.parts.engine.launcher.rest()

    async def collect(self) -> None:
        """Apply the rules of retention."""
        parts = self.runtime.parts.storage.database_parts
        assert parts is not None
        kept = Retention(self.database, parts.erasure, self.clock, RULES)
        async for _ in kept.steps(20):
            pass

    async def left(self) -> dict[str, int]:
        """Return how many rows there are in each table that has some."""
        return await self.database.read(_rows)


def _rows(connection: Connection) -> dict[str, int]:
    tables = [each for each in metadata.sorted_tables if each.name not in KEPT]
    counts = {
        str(table.name): connection.execute(select(func.count()).select_from(table)).scalar_one()
        for table in tables
    }
    return {name: number for name, number in counts.items() if number}


@asynccontextmanager
async def world(url: str) -> AsyncIterator[World]:
    clock = FakeClock()
    database = await open_database(url, limits=LIMITS)
    opened: dict[str, Any] = {"url": database, "clock": clock, "limits": LIMITS}
    tools: list[Any] = [take, give_back, split]
    async with in_memory(model=ScriptedModel(MODEL), tools=tools, **opened) as runtime:
        yield World(runtime, database, clock)


@pytest.mark.parametrize("is_old", [True, False])
async def test_all_that_tasks_leave_is_collected_when_it_is_old(
    database_url: str, *, is_old: bool
) -> None:
    async with world(database_url) as here:
        runtime = here.runtime
        reply = await runtime.chat("Split it.")
        assert reply.content == "All done."
        tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
        (failed,) = [each for each in tasks if each.task_key == "the pears"]
        await runtime.retry(failed.task_id)
        await runtime.fork(reply.task_id, at=2)
        await runtime.undo(reply.task_id)
        await runtime.call("split", {})
        await runtime.schedules.create(
            NewSchedule(name="Once", delay_seconds=60, input={"content": "What is new?"})
        )
        here.clock.advance(60)
        assert runtime.schedules.ticker is not None
        await runtime.schedules.ticker.look()
        await here.rest()
        tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
        assert {each.kind for each in tasks} == {"message", "call", "child"}
        here.clock.advance((31 if is_old else 29) * DAY)
        before = await here.left()
        await here.collect()
        assert await here.left() == ({} if is_old else before)
        assert len((await runtime.schedules.list())[0]) == 1
