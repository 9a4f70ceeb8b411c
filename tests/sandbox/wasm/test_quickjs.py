"""How the engine of scripts starts, and how it is closed."""

import asyncio
import threading
from pathlib import Path

import pytest

from penstock.core.call_errors import Cancelled, ScriptError
from penstock.core.clock import SystemClock
from penstock.sandbox.wasm.quickjs import QuickJs
from penstock.sandbox.wasm.wasm_guest import WasmHost
from penstock.testing.bridge import FakeBridge, never
from tests.kit.scripts import value_of


async def test_closing_ends_a_script_that_loops_in_a_thread(machine_code: Path) -> None:
    sandbox = QuickJs(SystemClock(), machine_code, inline_seconds=0)
    sandbox.warm()
    run = asyncio.create_task(value_of(sandbox, "await (() => { for (;;); })()"))
    await asyncio.wait([run], timeout=0.1)
    await sandbox.close()
    with pytest.raises(Cancelled, match="the script was ended: closed"):
        await run


class HeldUp(QuickJs):
    """Starts its engine when it may."""

    def __init__(self, cache: Path) -> None:
        super().__init__(SystemClock(), cache)
        self.asked, self.may = threading.Event(), threading.Event()

    def _opened(self) -> WasmHost:
        self.asked.set()
        assert self.may.wait(10)
        return super()._opened()


async def test_the_engine_starts_once_while_others_go_on(machine_code: Path) -> None:
    sandbox = HeldUp(machine_code)
    runs = [asyncio.create_task(value_of(sandbox, "1 + 1")) for _ in range(3)]
    await asyncio.to_thread(sandbox.asked.wait, 10)
    runs[0].cancel()  # who leaves takes the engine from nobody
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


async def test_a_closed_sandbox_ends_what_runs_and_takes_nothing_more(machine_code: Path) -> None:
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
async def test_a_machine_that_went_too_deep_is_named_and_takes_no_other_with_it(
    machine_code: Path, deep: str
) -> None:
    sandbox = QuickJs(SystemClock(), machine_code)
    nest = "let nested = []; for (let n = 0; n < 5000; n++) nested = [nested];"
    with pytest.raises(ScriptError, match="the script went too deep: its stack is used up"):
        await value_of(sandbox, f"(() => {{ {nest} return {deep}; }})()")
    assert await value_of(sandbox, "1 + 1") == 2
    await sandbox.close()


@pytest.mark.parametrize("wish", [None, "wasm", "deno"])
def test_it_is_the_engine_of_every_script_that_it_is_given(wish: str | None) -> None:
    """What a script recorded is read again by the engine that it ran in: the name is recorded."""
    assert QuickJs(SystemClock()).engine_for(wish) == "wasm"
