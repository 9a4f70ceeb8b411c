"""Scripts in Deno: its permissions, its commands, and scripts under a debugger."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.call_errors import CallError, OutOfMemory, ScriptError, ToolTimeout
from penstock.core.clock import SystemClock
from penstock.sandbox.processes.deno import (
    DebugSandbox,
    binary,
    command,
    free_port,
    missing_deno,
    open_deno,
)
from penstock.sandbox.processes.process_sandbox import ProcessSandbox
from penstock.sandbox.script import Bounds
from penstock.testing.bridge import BEGINS_MS, FakeBridge
from tests.kit.devtools import DevTools
from tests.kit.scripts import script_of

pytestmark = pytest.mark.slow("each script has a process of its own, which takes 0.1 s to begin")


@pytest.fixture(scope="module")
def deno(machine_code: Path) -> Iterator[ProcessSandbox]:
    result = open_deno(SystemClock(), machine_code)
    yield result
    asyncio.run(result.close())


async def run(deno: ProcessSandbox, source: str, **more: Any) -> Any:
    def echo(asked: Any) -> Any:
        return {"status": "success", "output": asked["input"]}

    bounds = Bounds(**({"seconds": 20} | more))
    return await deno.run(script_of(source), {"n": 1}, FakeBridge({"callTool": echo}), bounds)


def test_deno_is_installed_for_tests() -> None:
    assert missing_deno() == ""
    assert Path(binary()).name == "deno"


def test_deno_starts_without_permissions_and_environment(tmp_path: Path) -> None:
    """One single-use process, zero permissions."""
    result = command(tmp_path, 64)
    assert not [each for each in result.argv if each.startswith("--allow") or each == "-A"]
    assert {"--no-prompt", "--no-remote", "--no-npm", "--cached-only"} <= set(result.argv)
    assert sorted(result.environment) == ["DENO_DIR", "NO_COLOR", "TZ"]
    assert result.limits["FSIZE"] == 0
    mib = 1 << 20
    assert (result.limits["DATA"] - command(tmp_path, 63).limits["DATA"]) == mib
    assert 64 * mib < result.limits["DATA"] < 1024 * mib


async def test_a_script_makes_a_host_call_and_returns(deno: ProcessSandbox) -> None:
    source = """
        export async function run({ n }) {
          const { output } = await flo.callTool({ tool_id: "t", input: n });
          return [output, Date.now(), new Date() instanceof Date, typeof Intl];
        }
    """
    assert await run(deno, source) == [1, BEGINS_MS + 1, True, "undefined"]


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("new Date(1e12).toLocaleString()", "09/09/2001, 01:46:40 AM"),
        (
            "[`${new Date(1e12)}`, new Date(0).toTimeString(), `${new Date(NaN)}`, Date().length]",
            ["Sun Sep 09 2001 01:46:40 GMT+0000", "00:00:00 GMT+0000", "Invalid Date", 33],
        ),
        ("(1234567.891).toLocaleString()", "1234567.891"),
        ("['b', 'ä', 'a'].sort((a, b) => a.localeCompare(b)).join('')", "abä"),
        ("Date(5) === new Date().toString()", True),
        ("new (class extends Date {})(0).getTime()", 0),
        ("atob(btoa('\\xff\\0a'))", "\xff\0a"),
        ("(() => { try { atob('a'); } catch (e) { return [e.name, e.code]; } })()", None),
    ],
)
async def test_globals_of_v8_equal_those_of_quickjs(
    deno: ProcessSandbox, expression: str, shown: Any
) -> None:
    """`Number.toLocaleString` and the like give the invariant form on both."""
    expected = ["InvalidCharacterError", 5] if shown is None else shown
    assert await run(deno, f"export const run = () => {expression};") == expected


ESCAPES = [
    "flo.callTool.constructor('return Deno')()",
    "import('file:///etc/passwd').then((m) => m.default)",
    "new Error().constructor.prepareStackTrace(1)",
    "Reflect.construct(Date, [], Object).constructor.constructor('return process')()",
    "crypto.getRandomValues(new Uint8Array(1)).constructor.constructor('return Deno')()",
    "new TextEncoder().encode('a').constructor.constructor('return Deno')()",
    "flo.fs.readBytes('task://a').catch((e) => e.constructor.constructor('return Deno')())",
]


@pytest.mark.parametrize("expression", ESCAPES)
async def test_no_object_leads_out_of_the_realm_of_scripts(
    deno: ProcessSandbox, expression: str
) -> None:
    with pytest.raises(ScriptError):
        await run(deno, f"export const run = async () => {expression};")


async def test_a_stack_overflow_throws_an_error_of_the_scripts_realm(
    deno: ProcessSandbox,
) -> None:
    """An object of the outer realm would give access to that realm."""
    source = """
        export function run() {
          const foreign = [];
          const deep = () => {
            try { deep(); } catch (error) {
              const acts = [() => Date.now(), () => console.log(1), () => crypto.randomUUID()];
              for (const act of [...acts, () => new TextEncoder().encode("a")]) {
                try { act(); } catch (other) { if (!(other instanceof Error)) foreign.push(1); }
              }
              throw error;
            }
          };
          try { deep(); } catch {}
          return foreign.length;
        }
    """
    assert await run(deno, source) == 0


@pytest.mark.parametrize(
    ("source", "bounds", "error"),
    [
        ("for (;;);", {"seconds": 0.2}, ToolTimeout),
        ("const a = []; for (;;) a.push(new Array(1e5).fill(1.5));", {}, OutOfMemory),
        ("const a = []; for (;;) a.push(new Uint8Array(1 << 20));", {}, OutOfMemory),
    ],
    ids=["loop", "heap", "buffers"],
)
async def test_a_process_serves_one_script_and_ends(
    deno: ProcessSandbox, source: str, bounds: dict[str, Any], error: type[CallError]
) -> None:
    await deno.warm(64)
    with pytest.raises(error):
        await run(deno, f"export function run() {{ {source} }}", **bounds)
    assert await run(deno, "export const run = () => 1;") == 1


async def test_synchronous_answers_do_not_mix_with_deliveries(
    deno: ProcessSandbox,
) -> None:
    source = """
        export async function run() {
          const seen = [];
          const one = async (input) => {
            const { output } = await flo.callTool({ tool_id: "t", input });
            const when = flo.time.formatUnixTimestamp(output.n, "YYYY");
            seen.push([output.n, when, crypto.randomUUID().length]);
          };
          const inputs = Array.from({ length: 40 }, (_, n) => ({ n, fill: "x".repeat(5e4) }));
          await Promise.all(inputs.map(one));
          return seen;
        }
    """
    bridge = FakeBridge(
        {
            "callTool": lambda asked: {"status": "success", "output": asked["input"]},
            "time.formatUnixTimestamp": lambda asked: str(asked["seconds"]),
        }
    )
    result = await deno.run(script_of(source), {}, bridge, Bounds(seconds=20))
    assert result == [[n, str(n), 36] for n in range(40)]


SOURCE = """export async function run({ n }) {
  const { output } = await flo.callTool({ tool_id: "t", input: n });
  const doubled = output * 2;
  return [doubled, typeof Deno, typeof process, typeof Intl, typeof fetch];
}
"""


async def address_of(reported: asyncio.Queue[str], run: asyncio.Task[Any]) -> str:
    waiting = asyncio.create_task(reported.get())
    await asyncio.wait([waiting, run], return_when=asyncio.FIRST_COMPLETED)
    return waiting.result() if waiting.done() else str(await run)


@pytest.mark.slow("a process of Deno begins, with an inspector")
async def test_a_breakpoint_stops_at_its_line_and_values_can_be_seen(machine_code: Path) -> None:
    reported: asyncio.Queue[str] = asyncio.Queue()
    sandbox = DebugSandbox(SystemClock(), machine_code, reported.put_nowait)
    host = FakeBridge({"callTool": lambda asked: {"status": "success", "output": asked["input"]}})
    bounds = Bounds(seconds=0.01, cpu_ms=10)
    run = asyncio.create_task(sandbox.run(script_of(SOURCE), {"n": 21}, host, bounds))
    devtools = await DevTools.attach(await address_of(reported, run))
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


def test_a_free_port_is_used_and_zero_means_any() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    assert port <= free_port(port) < port + 20
    assert free_port(0) == 0
