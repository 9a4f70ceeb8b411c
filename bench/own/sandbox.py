"""Penstock, scripts: plain JavaScript beside a host that answers at once."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.core.clock import SystemClock
from penstock.sandbox.script import Bounds, Module, Script
from penstock.sandbox.wasm.quickjs import QuickJs
from penstock.testing.bridge import FakeBridge

DISTRIBUTION = "penstock"
BOUNDS = Bounds(seconds=60)


@dataclass(slots=True, kw_only=True)
class Context:
    """A sandbox, and the scripts that wait in it."""

    sandbox: QuickJs
    parked: list[asyncio.Task[Any]] = field(default_factory=list)


async def begin(cache: str, *, in_threads: bool) -> Context:
    inline = 0.0 if in_threads else 0.25
    return Context(sandbox=QuickJs(SystemClock(), Path(cache), inline_seconds=inline))


async def call(context: Context) -> None:
    assert await context.sandbox.run(QUICK, {"a": 1}, FakeBridge(), BOUNDS) == 2


async def ask(context: Context, number: int, *, together: bool) -> None:
    script = TOGETHER if together else IN_TURN
    assert await context.sandbox.run(script, {"n": number}, bridge(), BOUNDS) == number


async def park(context: Context, number: int) -> None:
    waiting, all_wait = 0, asyncio.Event()

    async def wait(_asked: Any) -> Any:
        nonlocal waiting
        waiting += 1
        if waiting == number:
            all_wait.set()
        await asyncio.Event().wait()

    for _ in range(number):
        run = context.sandbox.run(IN_TURN, {"n": 1}, FakeBridge({"callTool": wait}), BOUNDS)
        context.parked.append(asyncio.create_task(run))
    await all_wait.wait()


async def end(context: Context) -> None:
    for task in context.parked:
        task.cancel()
    await asyncio.gather(*context.parked, return_exceptions=True)
    await context.sandbox.close()


def bridge() -> FakeBridge:
    return FakeBridge({"callTool": lambda asked: {"status": "success", "output": asked["input"]}})


def script(source: str) -> Script:
    module = Module(name="main.mjs", source=source, imports={})
    return Script(entry="main.mjs", entrypoint="run", modules={"main.mjs": module}, digest="bench")


QUICK = script("export const run = ({ a }) => a + 1;")
IN_TURN = script("""
    export async function run({ n }) {
      let done = 0;
      while (done < n) {
        const { status } = await flo.callTool({ tool_id: "look", input: { done } });
        if (status === "success") done += 1;
      }
      return done;
    }
""")
TOGETHER = script("""
    export async function run({ n }) {
      const call = (_, at) => flo.callTool({ tool_id: "look", input: { at } });
      return (await Promise.all(Array.from({ length: n }, call))).length;
    }
""")
