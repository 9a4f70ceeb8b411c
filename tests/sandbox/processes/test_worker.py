"""The worker: the engine of this process in another one, with the same results."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.call_errors import OutOfMemory
from penstock.core.clock import SystemClock
from penstock.sandbox.processes.process_sandbox import ProcessSandbox
from penstock.sandbox.processes.wasm_process import open_wasm_process
from penstock.sandbox.script import Bounds, Sandbox
from penstock.sandbox.wasm.quickjs import QuickJs
from penstock.testing.bridge import FakeBridge
from tests.kit.scripts import script_of

pytestmark = pytest.mark.slow("each script has a worker of its own, which takes 0.3 s to begin")


@pytest.fixture(scope="module")
def apart(machine_code: Path) -> Iterator[ProcessSandbox]:
    result = open_wasm_process(SystemClock(), machine_code, [])
    yield result
    asyncio.run(result.close())


async def run(sandbox: Sandbox, source: str, bridge: FakeBridge) -> Any:
    return await sandbox.run(script_of(source), {"n": 1}, bridge, Bounds(seconds=20))


async def test_a_worker_gives_the_same_results_as_the_in_process_engine(
    apart: ProcessSandbox, machine_code: Path
) -> None:
    """Clock and randomness, and the order of results, are the same."""
    source = """
        import { callTool } from "flo:runtime";
        export async function run({ n }) {
          console.log("begun");
          Promise.reject(new Error("lost"));
          const all = await Promise.all([3, 2].map((input) => callTool({ tool_id: "t", input })));
          const bytes = await flo.fs.readBytes("task://a");
          const when = flo.time.formatUnixTimestamp(1, "YYYY");
          return [n, all, [...bytes], when, Math.random(), crypto.randomUUID(), Date.now()];
        }
    """
    here, result, reported = QuickJs(SystemClock(), machine_code), [], []
    for sandbox in (here, apart):
        answers = {"callTool": lambda asked: asked, "fs.readBytes": lambda _: b"\0\xff"}
        bridge = FakeBridge(answers | {"time.formatUnixTimestamp": lambda _: "1970"})
        result.append(await run(sandbox, source, bridge))
        reported.append((bridge.asked, bridge.printed, bridge.warned))
    await here.close()
    assert result[0] == result[1]
    assert reported[0] == reported[1]


async def test_a_script_that_exhausts_its_memory_ends_alone(apart: ProcessSandbox) -> None:
    with pytest.raises(OutOfMemory):
        await run(apart, "const a = []; for (;;) a.push(new Array(1000).fill(1));", FakeBridge())
    assert await run(apart, "export const run = () => 1;", FakeBridge()) == 1
