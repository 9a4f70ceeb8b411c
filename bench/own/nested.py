"""Penstock, scripts that call tools: direct calls of a project, the log on SQLite."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.app.runtime import Runtime
from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.program.opening import open as open_runtime
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ANY_INPUT, ToolSpec

DISTRIBUTION = "penstock"
MANIFEST = """
name: {name}
description: Makes calls.
input_schema: {{type: object}}
direct_call: true
script_tools: [look]
limits: {{nested_calls: 10000}}
execution: {{type: script, script_file: {name}.mts}}
"""
IN_TURN = """
export async function run({ n }: { n: number }) {
  let done = 0;
  for (let at = 0; at < n; at++) {
    const { status } = await flo.callTool({ tool_id: "look", input: { at } });
    if (status === "success") done += 1;
  }
  return done;
}
"""
TOGETHER = """
export async function run({ n }: { n: number }) {
  const call = (_: unknown, at: number) => flo.callTool({ tool_id: "look", input: { at } });
  const found = await Promise.all(Array.from({ length: n }, call));
  return found.filter((each) => each.status === "success").length;
}
"""


class Look:
    """Reads something, for all that the runtime knows."""

    spec = ToolSpec(tool_id="look", description="Look.", input_schema=ANY_INPUT, effect=Effect.READ)

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the number."""
        return {"at": input["at"]}

    def preview(self, output: Any) -> str | None:
        """Leave it to the usual preview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """An open runtime, and what closes it."""

    runtime: Runtime
    closing: AsyncExitStack


async def begin(cache: str, directory: str) -> Context:
    for name, script in (("in_turn", IN_TURN), ("together", TOGETHER)):
        (Path(directory) / f"{name}.tool.yaml").write_text(MANIFEST.format(name=name))
        (Path(directory) / f"{name}.mts").write_text(script)
    closing = AsyncExitStack()
    settings = {"cache_dir": cache}
    opening = open_runtime(directory, tools=[Look()], settings=settings)
    return Context(runtime=await closing.enter_async_context(opening), closing=closing)


async def ask(context: Context, number: int, *, together: bool) -> None:
    envelope = await context.runtime.call("together" if together else "in_turn", {"n": number})
    assert envelope.output == number, envelope


async def invoke(context: Context, number: int) -> None:
    await asyncio.gather(*(ask(context, 5, together=False) for _ in range(number)))


async def end(context: Context) -> None:
    await context.closing.aclose()
