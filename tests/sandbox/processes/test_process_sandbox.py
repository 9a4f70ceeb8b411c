"""Scripts in processes of their own, and the spare processes that are ready for the next script."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.core.call_errors import Cancelled, ToolTimeout
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.sandbox.processes.deno import open_deno
from penstock.sandbox.processes.process import Process
from penstock.sandbox.processes.process_sandbox import ProcessSandbox, WarmProcesses
from penstock.sandbox.processes.process_slots import ProcessSlots
from penstock.sandbox.script import Bounds, Script
from penstock.testing.bridge import FakeBridge, never
from tests.kit.engines import engine
from tests.kit.scripts import script_of

pytestmark = pytest.mark.slow("each script has a process of its own, which takes 0.1 s to begin")
WAITS = script_of("export const run = () => flo.callTool({ tool_id: 't' });")
LOOPS = script_of("console.log(1); for (;;); export const run = 1;")
PROMPT = 0.5
"""Seconds: 50 ms, plus the time that a shared machine may take."""


@pytest.mark.parametrize("script", [WAITS, LOOPS], ids=["waits", "loops"])
async def test_closing_ends_running_scripts(machine_code: Path, script: Script) -> None:
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
    started = clock.monotonic()
    with pytest.raises(ToolTimeout, match=r"longer than 0\.2 s"):
        await sandbox.run(LOOPS, {}, FakeBridge(), Bounds(seconds=0.2))
    assert clock.monotonic() - started < 0.2 + PROMPT
    await sandbox.close()


FANS_OUT = script_of(
    """
    export async function run({ depth, width }) {
      const seen = [Math.random(), crypto.randomUUID(), Date.now()];
      if (!depth) return 1;
      const inner = Array.from({ length: width }, () =>
        flo.callTool({ tool_id: "t", input: { depth: depth - 1, width } }));
      const found = await Promise.all(inner);
      return found.reduce((sum, each) => sum + each.output, seen.length - 2);
    }
    """
)


class Nested:
    """A sandbox whose scripts call themselves; records the largest number of processes."""

    def __init__(self, folder: Path, most: int) -> None:
        self.slots = ProcessSlots(most)
        self.sandbox = open_deno(SystemClock(), folder, slots=self.slots)
        self.most = 0
        self.ended: list[str] = []

    async def run(self, depth: int, width: int, task: str = "a", seconds: float = 60) -> int:
        async def call(asked: Any) -> Any:
            passed = asked["input"]
            output = await self.run(passed["depth"], passed["width"], task)
            return {"status": "success", "output": output}

        passed = {"depth": depth, "width": width}
        bridge = FakeBridge({"callTool": call}, task=task)
        result: int = await self.sandbox.run(FANS_OUT, passed, bridge, Bounds(seconds=seconds))
        self.ended.append(task)
        return result

    async def counted(self, running: asyncio.Task[int]) -> int:
        """Return the output of a script, and count the processes while it runs."""
        while not running.done():
            self.most = max(self.most, processes())
            await asyncio.wait([running], timeout=0.002)
        return await running


def processes() -> int:
    """Return the number of living children of this process."""
    result = 0
    for place in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            result += len(place.read_text().split())
    return result


@pytest.mark.parametrize(
    ("most", "depth", "width", "output"),
    [(1, 6, 1, 7), (2, 3, 3, 40), (3, 1, 24, 25), (4, 3, 3, 40)],
    ids=["deep in one", "wide and deep in two", "wide in three", "wide and deep in four"],
)
async def test_scripts_that_call_scripts_neither_deadlock_nor_exceed_the_limit(
    machine_code: Path, most: int, depth: int, width: int, output: int
) -> None:
    """A waiting script gives up its slot and continues in another process."""
    nested, before = Nested(machine_code, most), processes()
    result = await nested.counted(asyncio.create_task(nested.run(depth, width)))
    await nested.sandbox.close()
    assert (result, nested.most - before <= most) == (output, True)


async def test_a_task_with_many_calls_does_not_delay_another(machine_code: Path) -> None:
    nested = Nested(machine_code, 2)
    many = asyncio.create_task(nested.run(1, 24, "many"))
    while not nested.ended:
        await asyncio.wait([many], timeout=0.01)
    await nested.run(0, 0, "one")
    assert nested.ended.count("many") < 20
    assert await many == 25
    await nested.sandbox.close()


async def test_a_timeout_in_the_queue_names_the_queue(
    machine_code: Path,
) -> None:
    sandbox = open_deno(SystemClock(), machine_code, slots=ProcessSlots(1))
    busy = asyncio.create_task(sandbox.run(LOOPS, {}, FakeBridge(), Bounds(seconds=5)))
    await asyncio.wait([busy], timeout=0.1)
    with pytest.raises(ToolTimeout, match=r"limits\.processes"):
        await sandbox.run(FANS_OUT, {"depth": 0}, FakeBridge(), Bounds(seconds=0.2))
    busy.cancel()
    await asyncio.gather(busy, return_exceptions=True)
    await sandbox.close()


COMPUTES = script_of(
    """
    export async function run({ rounds }) {
      console.log("started");
      const seen = [Math.random()];
      for (let round = 0; round < rounds; round++) {
        const until = performance.now();
        let found = 0;
        for (let at = 0; at < 1.5e8; at++) found = (found + at) % 7;
        const answer = await flo.callTool({ tool_id: "t", input: { found, until } });
        seen.push(answer.output, Math.random());
        console.log(`round ${round}`);
      }
      return seen;
    }
    """
)


async def test_computing_scripts_take_turns_with_the_same_results(
    machine_code: Path,
) -> None:
    """Each is stopped in the middle of a step and repeats it, with the same messages."""

    async def computed(sandbox: ProcessSandbox) -> tuple[Any, ...]:
        asked = FakeBridge({"callTool": lambda given: {"status": "success", "output": given}})
        result = await sandbox.run(
            COMPUTES, {"rounds": 1}, asked, Bounds(seconds=50, cpu_ms=40_000)
        )
        return result, tuple(asked.printed), len(asked.asked)

    alone = open_deno(SystemClock(), machine_code)
    expected = await computed(alone)
    await alone.close()
    shared = open_deno(SystemClock(), machine_code, slots=ProcessSlots(1))
    assert await asyncio.gather(*(computed(shared) for _ in range(2))) == [expected] * 2
    await shared.close()


async def test_a_waiting_script_keeps_its_process_as_long_as_it_computed(
    machine_code: Path,
) -> None:
    """Otherwise a script that computes for long and waits often would mostly replay."""
    slots, bridge = ProcessSlots(1), FakeBridge({"callTool": never})
    sandbox = open_deno(SystemClock(), machine_code, slots=slots)
    running = sandbox.run(COMPUTES, {"rounds": 1}, bridge, Bounds(seconds=50, cpu_ms=40_000))
    waits, loop = asyncio.create_task(running), asyncio.get_running_loop()
    while not bridge.asked:
        await asyncio.wait([waits], timeout=0.005)
    (slot,) = slots.held
    assert slot.patient_until - loop.time() > 0.06
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    await sandbox.close()


async def test_an_endless_script_does_not_block_others_for_its_whole_timeout(
    machine_code: Path,
) -> None:
    sandbox = open_deno(SystemClock(), machine_code, slots=ProcessSlots(1))
    endless = asyncio.create_task(sandbox.run(LOOPS, {}, FakeBridge(), Bounds(seconds=5)))
    await asyncio.wait([endless], timeout=0.1)
    passed = {"depth": 0}
    assert await sandbox.run(FANS_OUT, passed, FakeBridge(), Bounds(seconds=4)) == 1
    assert not endless.done()
    endless.cancel()
    await asyncio.gather(endless, return_exceptions=True)
    await sandbox.close()


LIVES = "os.read(0, 1)"


def spares(folder: Path, program: str, started: list[Process], **more: str) -> WarmProcesses:
    return WarmProcesses(lambda _: engine(program, folder, **more), started.append)


async def test_a_spare_is_started_in_advance_and_replaced_when_taken(tmp_path: Path) -> None:
    started: list[Process] = []
    processes = spares(tmp_path, LIVES, started)
    await processes.warm(64)
    first = await processes.take(64)
    second = await processes.take(64)
    assert started[:2] == [first, second]
    for process in (first, second):
        process.close()
    processes.close()
    assert not any(process.is_alive for process in started)


async def test_a_spare_that_died_is_replaced(tmp_path: Path) -> None:
    started: list[Process] = []
    processes = spares(tmp_path, LIVES, started)
    await processes.warm(64)
    started[0].kill()
    taken = await processes.take(64)
    assert taken is started[1]
    taken.close()
    processes.close()


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        ("import sys; sys.stderr.write('no such thing'); sys.exit(9)\n", "with 9: no such thing"),
        ("import os; os.write(1, b'\\1\\0\\0\\0\\2\\0\\0\\0no')\n", "began with 'no'"),
    ],
)
async def test_a_process_that_does_not_start_reports_the_reason(
    tmp_path: Path, begin: str, message: str
) -> None:
    processes = spares(tmp_path, LIVES, [], begin=begin)
    with pytest.raises(ConfigError, match=message):
        await processes.take(64)
    processes.close()
