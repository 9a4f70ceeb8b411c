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
from penstock.sandbox.processes.slots import ProcessSlots
from penstock.sandbox.script import Bounds, Script
from penstock.testing.bridge import FakeBridge, never
from tests.kit.engines import engine
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
    """A sandbox whose scripts call themselves; notes the most processes that were there at once."""

    def __init__(self, folder: Path, most: int) -> None:
        self.slots = ProcessSlots(most)
        self.sandbox = open_deno(SystemClock(), folder, slots=self.slots)
        self.most = 0
        self.ended: list[str] = []

    async def run(self, depth: int, width: int, task: str = "a", seconds: float = 60) -> int:
        async def call(asked: Any) -> Any:
            given = asked["input"]
            output = await self.run(given["depth"], given["width"], task)
            return {"status": "success", "output": output}

        given = {"depth": depth, "width": width}
        bridge = FakeBridge({"callTool": call}, task=task)
        found: int = await self.sandbox.run(FANS_OUT, given, bridge, Bounds(seconds=seconds))
        self.ended.append(task)
        return found

    async def counted(self, running: asyncio.Task[int]) -> int:
        """Return the output; count processes meanwhile."""
        while not running.done():
            self.most = max(self.most, processes())
            await asyncio.wait([running], timeout=0.002)
        return await running


def processes() -> int:
    """Return how many children of this process live."""
    found = 0
    for place in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found += len(place.read_text().split())
    return found


@pytest.mark.parametrize(
    ("most", "depth", "width", "output"),
    [(1, 6, 1, 7), (2, 3, 3, 40), (3, 1, 24, 25), (4, 3, 3, 40)],
    ids=["deep in one", "wide and deep in two", "wide in three", "wide and deep in four"],
)
async def test_scripts_that_call_scripts_neither_deadlock_nor_exceed_the_limit(
    machine_code: Path, most: int, depth: int, width: int, output: int
) -> None:
    """A script that waits is computed again in another process: it does not hold its slot."""
    nested, before = Nested(machine_code, most), processes()
    found = await nested.counted(asyncio.create_task(nested.run(depth, width)))
    await nested.sandbox.close()
    assert (found, nested.most - before <= most) == (output, True)


async def test_a_task_that_calls_many_does_not_hold_up_another(machine_code: Path) -> None:
    nested = Nested(machine_code, 2)
    many = asyncio.create_task(nested.run(1, 24, "many"))
    while not nested.ended:
        await asyncio.wait([many], timeout=0.01)
    await nested.run(0, 0, "one")
    assert nested.ended.count("many") < 20
    assert await many == 25
    await nested.sandbox.close()


async def test_a_wait_for_a_process_that_takes_too_long_says_what_was_waited_for(
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
      console.log("begun");
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


async def test_scripts_that_compute_take_turns_and_end_as_they_would_alone(
    machine_code: Path,
) -> None:
    """Each is ended in the middle of a step, and computes it again: what it says is the same."""

    async def computed(sandbox: ProcessSandbox) -> tuple[Any, ...]:
        asked = FakeBridge({"callTool": lambda given: {"status": "success", "output": given}})
        found = await sandbox.run(COMPUTES, {"rounds": 1}, asked, Bounds(seconds=50, cpu_ms=40_000))
        return found, tuple(asked.printed), len(asked.asked)

    alone = open_deno(SystemClock(), machine_code)
    expected = await computed(alone)
    await alone.close()
    shared = open_deno(SystemClock(), machine_code, slots=ProcessSlots(1))
    assert await asyncio.gather(*(computed(shared) for _ in range(2))) == [expected] * 2
    await shared.close()


async def test_a_script_that_waits_keeps_its_place_for_as_long_as_it_computed(
    machine_code: Path,
) -> None:
    """Else one that computes for long and waits often would mostly compute what it had computed."""
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


async def test_a_script_that_never_ends_keeps_no_other_waiting_for_all_its_time(
    machine_code: Path,
) -> None:
    sandbox = open_deno(SystemClock(), machine_code, slots=ProcessSlots(1))
    endless = asyncio.create_task(sandbox.run(LOOPS, {}, FakeBridge(), Bounds(seconds=5)))
    await asyncio.wait([endless], timeout=0.1)
    given = {"depth": 0}
    assert await sandbox.run(FANS_OUT, given, FakeBridge(), Bounds(seconds=4)) == 1
    assert not endless.done()
    endless.cancel()
    await asyncio.gather(endless, return_exceptions=True)
    await sandbox.close()


LIVES = "os.read(0, 1)"


def spares(folder: Path, program: str, begun: list[Process], **more: str) -> WarmProcesses:
    return WarmProcesses(lambda _: engine(program, folder, **more), begun.append)


async def test_one_is_begun_before_it_is_taken_and_another_behind_it(tmp_path: Path) -> None:
    begun: list[Process] = []
    found = spares(tmp_path, LIVES, begun)
    await found.warm(64)
    first = await found.take(64)
    second = await found.take(64)
    assert begun[:2] == [first, second]
    for process in (first, second):
        process.close()
    found.close()
    assert not any(process.is_alive for process in begun)


async def test_one_that_died_while_it_waited_is_replaced(tmp_path: Path) -> None:
    begun: list[Process] = []
    found = spares(tmp_path, LIVES, begun)
    await found.warm(64)
    begun[0].kill()
    taken = await found.take(64)
    assert taken is begun[1]
    taken.close()
    found.close()


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        ("import sys; sys.stderr.write('no such thing'); sys.exit(9)\n", "with 9: no such thing"),
        ("import os; os.write(1, b'\\1\\0\\0\\0\\2\\0\\0\\0no')\n", "began with 'no'"),
    ],
)
async def test_one_that_does_not_start_says_why(tmp_path: Path, begin: str, said: str) -> None:
    found = spares(tmp_path, LIVES, [], begin=begin)
    with pytest.raises(ConfigError, match=said):
        await found.take(64)
    found.close()
