"""Penstock, a recorded task that is replayed: its log on SQLite, a long one of one call a turn."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from bench.kit import script
from bench.own.loop import make
from penstock.app.runtime import Runtime
from penstock.program.opening import open as open_runtime

DISTRIBUTION = "penstock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """An open runtime, and what closes it."""

    runtime: Runtime
    closing: AsyncExitStack


async def begin(directory: str) -> Context:
    closing = AsyncExitStack()
    opening = open_runtime(directory, agents=[make()])
    return Context(runtime=await closing.enter_async_context(opening), closing=closing)


async def record(context: Context, turns: int) -> str:
    run = script.start(turns, 1)
    reply = await context.runtime.chat("go", agent="bench")
    run.check(reply.content)
    return reply.task_id


async def replay(context: Context, task_id: str) -> int:
    report = await context.runtime.replay(task_id)
    assert report.equal, report
    assert report.compared_events == report.total_events
    return report.compared_events


async def end(context: Context) -> None:
    await context.closing.aclose()
