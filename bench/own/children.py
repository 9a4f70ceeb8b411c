"""Penstock, a call that splits its work into children: a script and a Python tool, on SQLite."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.own.loop import CARD
from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.models.scripted import ScriptedModel, say
from penstock.program.opening import open as open_runtime
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool

DISTRIBUTION = "penstock"
MANIFEST = """
name: batch
description: Splits its work.
input_schema: {type: object}
direct_call: true
execution: {type: script, script_file: batch.mts}
"""
BATCH = """
export async function run({ n }: { n: number }) {
  const children = Array.from({ length: n }, (_, at) => ({
    worker_kind: "extractor" as const, title: `Part ${at}`, objective: `Do part ${at}.`, input: at,
  }));
  const { batch } = await flo.task.spawnChildren({ children });
  const { results } = await flo.task.waitForBatch({ batch_id: batch.batch_id });
  return results.filter((each) => each.status === "completed").length;
}
"""


@tool(direct_call=True, effect="write")
async def in_turn(ctx: ToolContext, n: int) -> int:
    """Request children one after another, and wait for all of them."""
    children = [await ctx.spawn(f"Do part {at}.", key=str(at)) for at in range(n)]
    return len(await ctx.gather(*children))


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """An open runtime, and what closes it."""

    runtime: Runtime
    closing: AsyncExitStack


async def begin(directory: str) -> Context:
    (Path(directory) / "batch.tool.yaml").write_text(MANIFEST)
    (Path(directory) / "batch.mts").write_text(BATCH)
    closing = AsyncExitStack()
    model = ScriptedModel(lambda request: say("Done."), card=CARD)
    agents = [Agent("assistant", model=model)]
    opening = open_runtime(directory, agents=agents, tools=[in_turn])
    return Context(runtime=await closing.enter_async_context(opening), closing=closing)


async def split(context: Context, number: int, *, batch: bool) -> None:
    envelope = await context.runtime.call("batch" if batch else "in_turn", {"n": number})
    assert envelope.output == number, envelope


async def end(context: Context) -> None:
    await context.closing.aclose()
