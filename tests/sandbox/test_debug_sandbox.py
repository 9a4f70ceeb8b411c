"""A script under a debugger: it waits, stops at a line of its source, shows its values, goes on."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.debug_sandbox import DebugSandbox, free_port
from penstock.sandbox.script import Bounds
from penstock.testing.bridge import FakeBridge
from tests.kit.devtools import DevTools
from tests.kit.scripts import script_of

SOURCE = """export async function run({ n }) {
  const { output } = await flo.callTool({ tool_id: "t", input: n });
  const doubled = output * 2;
  return [doubled, typeof Deno, typeof process, typeof Intl, typeof fetch];
}
"""


async def address_of(told: asyncio.Queue[str], run: asyncio.Task[Any]) -> str:
    waiting = asyncio.create_task(told.get())
    await asyncio.wait([waiting, run], return_when=asyncio.FIRST_COMPLETED)
    return waiting.result() if waiting.done() else str(await run)


@pytest.mark.slow("a process of Deno begins, with an inspector")
async def test_a_breakpoint_stops_at_its_line_and_values_can_be_seen(machine_code: Path) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()
    sandbox = DebugSandbox(SystemClock(), machine_code, told.put_nowait)
    host = FakeBridge({"callTool": lambda asked: {"status": "success", "output": asked["input"]}})
    bounds = Bounds(seconds=0.01, cpu_ms=10)
    run = asyncio.create_task(sandbox.run(script_of(SOURCE), {"n": 21}, host, bounds))
    devtools = await DevTools.attach(await address_of(told, run))
    await devtools.ask("Debugger.enable")
    await devtools.ask("Debugger.setBreakpointByUrl", url="tool:///main.mjs", lineNumber=3)
    await devtools.ask("Runtime.runIfWaitingForDebugger")
    await devtools.event("Debugger.paused")
    await devtools.ask("Debugger.resume")
    paused = (await devtools.event("Debugger.paused"))["callFrames"][0]
    assert (paused["functionName"], paused["location"]["lineNumber"]) == ("run", 3)
    frame = paused["callFrameId"]
    seen = await devtools.ask(
        "Debugger.evaluateOnCallFrame", callFrameId=frame, expression="doubled"
    )
    assert seen["result"]["value"] == 42
    await devtools.ask("Debugger.resume")
    assert await run == [42, "undefined", "undefined", "undefined", "function"]
    await devtools.close()
    await sandbox.close()


def test_the_next_port_is_taken_if_one_is_not_free() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) != port
    assert (free_port(0), free_port(1_000_000)) == (0, 0)


def test_a_port_that_is_free_is_the_one_and_without_a_wish_it_is_any() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    assert port <= free_port(port) < port + 20
    assert free_port(0) == 0
