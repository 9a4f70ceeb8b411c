"""One entry: the order of deliveries, how a script is stopped, and how it ends."""

import asyncio
import re
from typing import Any

import pytest

from penstock.core.call_errors import OutOfMemory, ScriptError, ScriptLoadError, ToolTimeout
from penstock.core.clock import SystemClock
from penstock.core.errors import LeaseLost, Suspend
from penstock.sandbox.bridge import HostCallResult
from penstock.sandbox.entry import NOTHING_SETTLES
from penstock.sandbox.script import Bounds, Sandbox
from penstock.testing.bridge import BEGINS_MS, FakeBridge, never
from penstock.testing.clock import settle
from tests.kit.scripts import script_of

BOUNDS = Bounds(seconds=5)
PROMPT = 0.05
"""Seconds within which a script must have ended."""
BUSY = 0.4
"""Seconds that a shared machine may take from a test."""


async def run(
    sandbox: Sandbox,
    source: str,
    bridge: FakeBridge | None = None,
    *,
    bounds: Bounds = BOUNDS,
    others: dict[str, str] | None = None,
) -> Any:
    host = bridge or FakeBridge()
    return await sandbox.run(script_of(source, others), {"n": 1}, host, bounds)


def echo(asked: Any) -> Any:
    return {"status": "success", "output": asked["input"]}


CALL = 'const call = (n) => flo.callTool({ tool_id: "t", input: n }).then((e) => e.output);'


# ---- modules and output


async def test_the_entrypoint_receives_the_input_and_returns_the_output(sandbox: Sandbox) -> None:
    """M9: the entrypoint is called with one argument, the input. It may be sync or async."""
    assert await run(sandbox, "export const run = (...given) => given;") == [{"n": 1}]
    assert await run(sandbox, "export async function run() {}") is None


async def test_modules_may_be_cyclic_use_top_level_await_and_import_json(sandbox: Sandbox) -> None:
    """M7: cyclic imports and top-level `await` work."""
    source = """
        import { two } from "./two.mjs";
        import settings from "./settings.json" with { type: "json" };
        import * as all from "flo:runtime";
        import { callTool } from "flo:runtime";
        export const one = () => 1;
        const same = (it) => it === flo.callTool;
        export const run = () => [two(), settings, same(all.callTool), same(callTool)];
    """
    two = 'import { one } from "./main.mjs"; await null; export const two = () => one() + 1;'
    others = {"two.mjs": two, "settings.json": '{"a": [1], "__proto__": 2}'}
    result = await run(sandbox, source, others=others)
    assert result == [2, {"a": [1], "__proto__": 2}, True, True]


async def test_modules_are_evaluated_again_in_each_entry(sandbox: Sandbox) -> None:
    """M7: nothing survives from one invocation to the next."""
    source = "globalThis.n = (globalThis.n ?? 0) + 1; export const run = () => globalThis.n;"
    assert [await run(sandbox, source) for _ in range(3)] == [1, 1, 1]


async def test_a_module_that_throws_and_a_missing_entrypoint_fail(sandbox: Sandbox) -> None:
    """`SCRIPT_LOAD_ERROR`: the manifest or a module is broken; `details.diagnostics`."""
    with pytest.raises(ScriptError, match="at the top"):
        await run(sandbox, 'throw new Error("at the top");')
    with pytest.raises(ScriptLoadError, match="must export a function 'run', found 5") as broken:
        await run(sandbox, "export const run = 5;")
    assert broken.value.details
    (reported,) = broken.value.details["diagnostics"]
    place = (reported["file"], reported["line"])
    assert (place, reported["code"]) == (("main.mjs", 1), "entrypoint-missing")


async def test_an_error_has_its_name_and_position(sandbox: Sandbox) -> None:
    """M10: a throw → `SCRIPT_ERROR`, `message` = the error's message, `details.name`, `.stack`."""
    with pytest.raises(ScriptError, match="no") as raised:
        await run(sandbox, "export function run() {\n  throw new RangeError('no');\n}")
    assert raised.value.details is not None
    assert raised.value.details["name"] == "RangeError"
    assert re.fullmatch(r"    at run \(tool:///main\.mjs:2:\d+\)", raised.value.details["stack"])


async def test_a_long_name_of_an_error_is_cut_with_a_mark(sandbox: Sandbox) -> None:
    """The mark makes the beginning of a cut secret recognisable."""
    with pytest.raises(ScriptError) as raised:
        await run(sandbox, 'export function run() { throw { name: "n".repeat(201) }; }')
    assert (raised.value.details or {})["name"] == "n" * 199 + "…"


@pytest.mark.parametrize(
    "asking",
    [
        'flo.vault.get({ scope: "profile", key: "k" })',
        'flo.task.getState({ key: "k" })',
        'fetch("https://api.test")',
    ],
)
async def test_a_refused_host_call_points_at_its_line(sandbox: Sandbox, asking: str) -> None:
    source = f"""export async function run() {{
        try {{ await {asking}; }} catch (e) {{ return e.stack; }}
    }}"""
    assert "tool:///main.mjs:2:" in await run(sandbox, source)


# ---- order, clock, randomness


async def test_recorded_results_win_races_again(sandbox: Sandbox) -> None:
    """L4: … so `Promise.race` has the same winner in each entry."""
    source = f"{CALL} export const run = () => Promise.race([call(3), call(1), call(2)]);"

    def recorded(asked: Any) -> Any:
        order = asked["input"]
        return HostCallResult(value=echo(asked), order=order, at_ms=BEGINS_MS + order)

    assert await run(sandbox, source, FakeBridge({"callTool": recorded})) == 1


async def test_all_jobs_run_before_the_next_delivery(sandbox: Sandbox) -> None:
    source = f"""{CALL}
        const seen = [];
        const note = async (n) => {{
          seen.push(await call(n));
          await null;
          seen.push(-n);
        }};
        export const run = () => Promise.all([note(2), note(1)]).then(() => seen);
    """

    def recorded(asked: Any) -> Any:
        return HostCallResult(value=echo(asked), order=asked["input"], at_ms=BEGINS_MS)

    assert await run(sandbox, source, FakeBridge({"callTool": recorded})) == [1, -1, 2, -2]


async def test_the_clock_does_not_advance_between_deliveries(sandbox: Sandbox) -> None:
    """L5: `Date.now()`, `new Date()`, `performance.now()` stand still between host calls."""
    source = f"""{CALL}
        export async function run() {{
          const seen = [Date.now(), +new Date(), performance.now()];
          await call(1);
          for (let n = 0; n < 1e5; n++);
          return [...seen, Date.now(), performance.now()];
        }}
    """
    result = await run(sandbox, source, FakeBridge({"callTool": echo}))
    assert result == [BEGINS_MS, BEGINS_MS, 0, BEGINS_MS + 1, 1]


async def test_randomness_repeats_for_a_call_and_differs_between_calls(sandbox: Sandbox) -> None:
    """L5: `Math.random()` and `crypto` randomness come from a generator …, and repeat."""
    source = "export const run = () => [Math.random(), Math.random(), crypto.randomUUID()];"
    seeds = [bytes(32), bytes(32), bytes(31) + b"\1"]
    one, again, other = [await run(sandbox, source, FakeBridge(seed=seed)) for seed in seeds]
    assert one == again
    assert len({*one, *other}) == 6
    assert all(0 <= number < 1 for number in one[:2])


@pytest.mark.parametrize(
    "asking",
    [
        "for (let n = 0; n < 500; n++) await call(n);",
        "await Promise.all(Array.from({ length: 500 }, (_, n) => call(n)));",
    ],
    ids=["in turn", "together"],
)
async def test_immediate_answers_do_not_block_the_loop(sandbox: Sandbox, asking: str) -> None:
    async def at_once(asked: Any) -> Any:
        return echo(asked)

    source = f"{CALL} export async function run() {{ {asking} }}"
    task = asyncio.create_task(run(sandbox, source, FakeBridge({"callTool": at_once})))
    turns = 0
    while not task.done():
        await settle(rounds=1)
        turns += 1
    await task
    assert turns > 3


# ---- what is stopped


@pytest.mark.parametrize("loop", ["while (true);", r"/^(a+)+\1c$/.test('a'.repeat(40) + 'b');"])
async def test_the_cpu_limit_counts_computing_only(sandbox: Sandbox, loop: str) -> None:
    """Killed, `TIMEOUT`, `details.reason: "cpu"`; native loops and regular expressions too."""
    bounds = Bounds(seconds=5, cpu_ms=100)
    with pytest.raises(ToolTimeout) as raised:
        await run(sandbox, f"export const run = () => {{ {loop} }};", bounds=bounds)
    assert raised.value.details == {"reason": "cpu"}


async def test_lines_printed_before_a_timeout_are_not_lost(sandbox: Sandbox) -> None:
    bridge = FakeBridge()
    source = "export function run() { console.log('last words'); while (true); }"
    with pytest.raises(ToolTimeout, match=r"longer than 0\.1 s"):
        await run(sandbox, source, bridge, bounds=Bounds(seconds=0.1))
    assert bridge.printed == [("info", "last words")]


async def test_a_host_that_never_answers_leads_to_the_timeout(sandbox: Sandbox) -> None:
    source = f"{CALL} export const run = () => call(1);"
    with pytest.raises(ToolTimeout):
        await run(sandbox, source, FakeBridge({"callTool": never}), bounds=Bounds(seconds=0.05))


@pytest.mark.parametrize(
    "source",
    [
        "export function run() { const a = []; a[2 ** 32 - 2] = 1; a.sort(); }",
        "for (;;);",
        f"{CALL} export const run = () => call(1);",
    ],
    ids=["native loop", "loop", "waiting"],
)
async def test_cancelling_ends_a_script_at_once(threaded: Sandbox, source: str) -> None:
    """Cancelling `run` ends it within 50 ms."""
    clock = SystemClock()
    task = asyncio.create_task(run(threaded, source, FakeBridge({"callTool": never})))
    await asyncio.wait([task], timeout=0.1)
    started = clock.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.monotonic() - started < PROMPT + BUSY


async def test_the_memory_limit_of_a_manifest_holds(sandbox: Sandbox) -> None:
    source = "export const run = () => [...Array(40)].map(() => new Uint8Array(1 << 20)).length;"
    assert await run(sandbox, source) == 40
    with pytest.raises(OutOfMemory):
        await run(sandbox, source, bounds=Bounds(seconds=5, memory_mb=8))


# ---- how it ends


async def test_a_promise_that_nothing_settles_fails_at_once(sandbox: Sandbox) -> None:
    """M13: … fails at once with `SCRIPT_ERROR`."""
    with pytest.raises(ScriptError, match=NOTHING_SETTLES):
        await run(sandbox, "export const run = () => new Promise(() => {});")


async def suspend(asked: Any) -> Any:
    raise Suspend(asked["input"])


async def test_a_script_suspends_when_no_call_can_settle(sandbox: Sandbox) -> None:
    """L6: … it is driven on while a host call is in flight, a timer is set …."""
    source = """
        export const run = () => Promise.all([
          flo.callTool({ tool_id: "ask", input: "q1" }),
          flo.sleep(5).then(() => flo.callTool({ tool_id: "ask", input: "q2" })),
        ]);
    """
    bridge = FakeBridge({"callTool": suspend})
    with pytest.raises(Suspend) as raised:
        await run(sandbox, source, bridge)
    assert raised.value.awaited == ("q1", "q2")
    assert [name for name, _ in bridge.asked] == ["callTool", "sleep", "callTool"]
    assert bridge.warned == []


async def test_a_lost_lease_ends_the_entry_although_others_are_open(sandbox: Sandbox) -> None:
    async def lose(_asked: Any) -> Any:
        raise LeaseLost

    source = f"{CALL} export const run = () => Promise.all([flo.sleep(3e6), call(1)]);"
    with pytest.raises(LeaseLost):
        await run(sandbox, source, FakeBridge({"callTool": lose}))


async def test_open_host_calls_are_awaited_after_the_script_returned(sandbox: Sandbox) -> None:
    """M14: … are awaited and recorded before the call settles (`script.unawaited_calls`)."""
    done = []

    async def slow(asked: Any) -> Any:
        await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.01)
        done.append(asked["input"])
        return echo(asked)

    bridge = FakeBridge({"callTool": slow})
    source = (
        f"{CALL} export const run = () => {{ call(1); setTimeout(() => {{}}, 3e6); return 2; }};"
    )
    assert await run(sandbox, source, bridge) == 2
    assert done == [1]
    assert bridge.warned == [
        ("script.unawaited_calls", "the script returned before 1 of its host calls: callTool")
    ]


async def test_an_unawaited_question_does_not_suspend(sandbox: Sandbox) -> None:
    bridge = FakeBridge({"callTool": suspend})
    assert (
        await run(sandbox, f"{CALL} export const run = () => {{ call(1); return 2; }};", bridge)
        == 2
    )
    assert [kind for kind, _ in bridge.warned] == ["script.unawaited_calls"]


async def test_an_open_timeout_signal_does_not_prevent_suspending(sandbox: Sandbox) -> None:
    """L6: "A script parks when nothing in it can move": what a signal was made for may be over."""
    made = "const signal = AbortSignal.timeout(3_600_000);"
    source = f"{CALL} export async function run() {{ {made} return call(1); }}"
    with pytest.raises(Suspend):
        await run(sandbox, source, FakeBridge({"callTool": suspend}), bounds=Bounds(seconds=1))


async def test_a_timeout_signal_fires_if_no_call_is_parked(sandbox: Sandbox) -> None:
    source = """
        export const run = () => new Promise((resolve) => {
          AbortSignal.timeout(5).addEventListener("abort", () => resolve(1));
        });
    """
    assert await run(sandbox, source) == 1


async def test_only_unhandled_rejections_are_reported(sandbox: Sandbox) -> None:
    """An unhandled rejection is a warning event `script.unhandled_rejection`."""
    source = """
        export async function run() {
          const taken = Promise.reject(new Error("taken later"));
          Promise.reject(new Error("lost"));
          await flo.sleep(1);
          await taken.catch(() => {});
          return 1;
        }
    """
    bridge = FakeBridge()
    assert await run(sandbox, source, bridge) == 1
    assert bridge.warned == [("script.unhandled_rejection", "lost")]


async def test_an_error_thrown_in_a_timer_is_reported(sandbox: Sandbox) -> None:
    bridge = FakeBridge()
    source = """
        export const run = () => new Promise((resolve) => {
          setTimeout(() => { throw new Error("in a timer"); }, 1);
          setTimeout(resolve, 2);
        });
    """
    assert await run(sandbox, source, bridge) is None
    assert bridge.warned == [("script.unhandled_rejection", "in a timer")]


async def test_the_host_receives_the_computing_time(sandbox: Sandbox) -> None:
    """`script_cpu_ms` counts over entries: one with nothing left is stopped."""
    spin = "export const run = () => { for (let n = 0; n < 3e6; n++); };"
    await run(sandbox, spin, bridge := FakeBridge())
    assert bridge.computed_ms > 0
    with pytest.raises(ToolTimeout, match="more than 50 ms") as stopped:
        await run(sandbox, spin, bounds=Bounds(seconds=5, cpu_ms=50, spent_ms=50))
    assert stopped.value.details == {"reason": "cpu"}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('"x".repeat(12)', "x" * 12),
        ('"x".repeat(13)', "x" * 9 + "…"),
        ('"\\u2603".repeat(4)', "\N{SNOWMAN}" * 4),
        ('"\\u2603".repeat(5)', "\N{SNOWMAN}" * 3 + "…"),
        ('"\\u{1f600}".repeat(4)', "\N{GRINNING FACE}" * 2 + "…"),
        ('"\\ud83d" + "x".repeat(20)', "\ufffd" + "x" * 6 + "…"),
    ],
)
async def test_a_line_is_cut_by_bytes_with_a_mark(sandbox: Sandbox, line: str, shown: str) -> None:
    """`log_bytes` 262144 / lines 2000 / one line 8192: cut, with a mark."""
    source = f"export const run = () => console.log({line});"
    bounds = Bounds(seconds=5, log_line_bytes=12)
    await run(sandbox, source, bridge := FakeBridge(), bounds=bounds)
    assert bridge.printed == [("info", shown)]


async def test_console_lines_count_by_their_bytes(sandbox: Sandbox) -> None:
    """Past the cap one line `console output truncated`."""
    source = 'export const run = () => { for (let n = 0; n < 9; n++) console.log("\\u2603"); };'
    await run(sandbox, source, bridge := FakeBridge(), bounds=Bounds(seconds=5, log_bytes=10))
    end = ("warning", "console output truncated")
    assert bridge.printed == [("info", "\N{SNOWMAN}")] * 3 + [end]
