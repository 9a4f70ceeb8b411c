"""Scripts apart: what runs is ended by closing, and nothing runs afterwards."""

import asyncio
from pathlib import Path

import pytest

from penstock.core.call_errors import Cancelled, ToolTimeout
from penstock.core.clock import SystemClock
from penstock.sandbox.processes.deno import open_deno
from penstock.sandbox.script import Bounds, Script
from penstock.testing.bridge import FakeBridge, never
from tests.kit.scripts import script_of

pytestmark = pytest.mark.slow("each script has a process of its own, which takes 0.1 s to begin")
WAITS = script_of("export const run = () => flo.callTool({ tool_id: 't' });")
LOOPS = script_of("console.log(1); for (;;); export const run = 1;")
PROMPT = 0.5
"""Seconds; 50 ms, and what a machine may take away from a test that shares it."""


@pytest.mark.parametrize("script", [WAITS, LOOPS], ids=["waits", "loops"])
async def test_closing_ends_what_runs(machine_code: Path, script: Script) -> None:
    sandbox, bridge = open_deno(SystemClock(), machine_code), FakeBridge({"callTool": never})
    task = asyncio.create_task(sandbox.run(script, {}, bridge, Bounds(seconds=30)))
    while script is WAITS and not bridge.asked and not task.done():
        await asyncio.wait([task], timeout=0.01)
    await sandbox.close()
    with pytest.raises(Cancelled):
        await task
    with pytest.raises(Cancelled, match="closed"):
        await sandbox.run(script, {}, bridge, Bounds(seconds=1))


async def test_a_deadline_is_kept_within_fifty_milliseconds(machine_code: Path) -> None:
    clock = SystemClock()
    sandbox = open_deno(clock, machine_code)
    await sandbox.warm(64)
    begun = clock.monotonic()
    with pytest.raises(ToolTimeout, match=r"longer than 0\.2 s"):
        await sandbox.run(LOOPS, {}, FakeBridge(), Bounds(seconds=0.2))
    assert clock.monotonic() - begun < 0.2 + PROMPT
    await sandbox.close()
