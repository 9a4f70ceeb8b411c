"""Scripts in this process: the engine starts once, steps run on the loop and then in threads."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.core.call_errors import Cancelled, ScriptError
from penstock.core.clock import SystemClock
from penstock.sandbox.script import Bounds, Sandbox
from penstock.sandbox.wasm.quickjs import LoopTurn, QuickJs, WasmHost
from penstock.testing.bridge import FakeBridge, never
from tests.kit.scripts import script_of, value_of


async def test_closing_ends_a_script_that_loops_in_a_thread(machine_code: Path) -> None:
    sandbox = QuickJs(SystemClock(), machine_code, inline_seconds=0)
    sandbox.warm()
    run = asyncio.create_task(value_of(sandbox, "await (() => { for (;;); })()"))
    await asyncio.wait([run], timeout=0.1)
    await sandbox.close()
    with pytest.raises(Cancelled, match="the script was ended: closed"):
        await run


class HeldUp(QuickJs):
    """A sandbox whose engine starts when the test permits it."""

    def __init__(self, cache: Path) -> None:
        super().__init__(SystemClock(), cache)
        self.asked, self.may = threading.Event(), threading.Event()

    def _opened(self) -> WasmHost:
        self.asked.set()
        assert self.may.wait(10)
        return super()._opened()


async def test_the_engine_starts_once_and_does_not_block_the_loop(machine_code: Path) -> None:
    sandbox = HeldUp(machine_code)
    runs = [asyncio.create_task(value_of(sandbox, "1 + 1")) for _ in range(3)]
    await asyncio.to_thread(sandbox.asked.wait, 10)
    runs[0].cancel()  # a cancelled script does not stop the start for the others
    sandbox.may.set()
    assert await asyncio.gather(*runs[1:]) == [2, 2]
    await sandbox.close()


async def test_a_sandbox_that_is_closed_while_it_starts_runs_nothing(machine_code: Path) -> None:
    sandbox = HeldUp(machine_code)
    run = asyncio.create_task(value_of(sandbox, "1 + 1"))
    await asyncio.to_thread(sandbox.asked.wait, 10)
    closing = asyncio.create_task(sandbox.close())
    sandbox.may.set()
    await closing
    with pytest.raises(Cancelled, match="the sandbox is closed"):
        await run


async def test_a_closed_sandbox_ends_running_scripts_and_refuses_new_ones(
    machine_code: Path,
) -> None:
    sandbox = QuickJs(SystemClock(), machine_code)
    bridge = FakeBridge({"callTool": never})
    run = asyncio.create_task(value_of(sandbox, "await flo.callTool({ tool_id: 't' })", bridge))
    while not bridge.asked:
        await asyncio.wait([run], timeout=0.01)
    await sandbox.close()
    with pytest.raises(Cancelled):
        await run
    with pytest.raises(Cancelled):
        await value_of(sandbox, "1")


@pytest.mark.parametrize(
    "deep", ["JSON.stringify(nested)", "JSON.parse('['.repeat(50000))", "nested"]
)
async def test_an_exhausted_stack_ends_one_script_only(machine_code: Path, deep: str) -> None:
    sandbox = QuickJs(SystemClock(), machine_code)
    nest = "let nested = []; for (let n = 0; n < 5000; n++) nested = [nested];"
    with pytest.raises(ScriptError, match="the script went too deep: its stack is used up"):
        await value_of(sandbox, f"(() => {{ {nest} return {deep}; }})()")
    assert await value_of(sandbox, "1 + 1") == 2
    await sandbox.close()


@pytest.mark.parametrize("requested", [None, "wasm", "deno"])
def test_engine_for_returns_wasm_for_any_request(requested: str | None) -> None:
    """A script continues in the engine that it ran in: the name of the engine is recorded."""
    assert QuickJs(SystemClock()).engine_for(requested) == "wasm"


CALL = 'const call = (n) => flo.callTool({ tool_id: "t", input: n }).then((e) => e.output);'


async def run(sandbox: Sandbox, source: str, bridge: FakeBridge) -> Any:
    return await sandbox.run(script_of(source), {"n": 1}, bridge, Bounds(seconds=5))


def echo(asked: Any) -> Any:
    return {"status": "success", "output": asked["input"]}


async def test_a_long_step_continues_in_a_thread_with_the_same_result(
    sandbox: Sandbox,
) -> None:
    source = f"""{CALL}
        export async function run() {{
          console.log("begun");
          const first = [Math.random(), await call(1), Date.now()];
          for (let n = 0; n < 1e6; n++);
          console.log("computed");
          return [first, Math.random(), await call(2), Date.now()];
        }}
    """
    bridges = [FakeBridge({"callTool": echo}) for _ in range(2)]
    result = await run(sandbox, source, bridges[0])
    short = await run(sandbox, source.replace("1e6", "1"), bridges[1])
    assert result == short
    assert bridges[0].asked == bridges[1].asked
    assert bridges[0].printed == [("info", "begun"), ("info", "computed")]


async def test_a_script_can_run_in_threads_only(threaded: Sandbox) -> None:
    source = f"""{CALL}
        export async function run() {{
          const all = await Promise.all([1, 2, 3].map(call));
          return all.length + (await call(4));
        }}
    """
    assert await run(threaded, source, FakeBridge({"callTool": echo})) == 7


async def test_reporting_a_rejection_does_not_block_the_loop(
    threaded: Sandbox,
) -> None:
    """With a linger of one tick the epoch stops unless this script makes it advance."""
    source = """
        export async function run() {
          Promise.reject({ get message() { for (;;); } });
          return 1;
        }
    """
    bridge = FakeBridge()
    assert (await run(threaded, source, bridge), bridge.warned) == (1, [])


async def test_messages_of_a_repeated_step_count_once(
    sandbox: Sandbox,
) -> None:
    source = """
        export async function run() {
          for (let n = 0; n < 100; n++) console.log("before");
          for (let n = 0; n < 1e6; n++);
          for (let n = 0; n < 20; n++) console.log("after");
          return 1;
        }
    """
    bridge, bounds = FakeBridge(), Bounds(seconds=5, host_calls=1, log_lines=150)
    assert await sandbox.run(script_of(source), {}, bridge, bounds) == 1
    assert [text for _, text in bridge.printed] == ["before"] * 100 + ["after"] * 20


async def test_a_step_after_a_long_one_waits_for_one_iteration_of_the_loop() -> None:
    turn, seen = LoopTurn(), list[str]()

    async def script(name: str) -> None:
        await turn.come()
        seen.append(name)
        turn.hold()

    loop = asyncio.get_running_loop()
    scripts = [asyncio.create_task(script(name)) for name in ("first", "second", "third")]
    loop.call_soon(lambda: loop.call_soon(lambda: seen.append("other")))
    await asyncio.gather(*scripts)
    assert seen[:2] == ["first", "other"]
    assert sorted(seen) == ["first", "other", "second", "third"]


async def test_without_a_long_step_no_script_waits() -> None:
    turn, seen = LoopTurn(), list[str]()

    async def script() -> None:
        await turn.come()
        seen.append("here")

    task = asyncio.create_task(script())
    asyncio.get_running_loop().call_soon(lambda: seen.append("later"))
    await task
    assert seen[0] == "here"


def test_a_future_of_an_ended_loop_blocks_no_other_loop() -> None:
    turn = LoopTurn()

    async def hold() -> None:
        turn.hold()

    async def come() -> str:
        await turn.come()
        return "come"

    asyncio.run(hold())
    assert asyncio.run(asyncio.wait_for(come(), 1)) == "come"
