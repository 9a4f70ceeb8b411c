"""The contract of every Sandbox: how hostile scripts end while an innocent one continues."""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.core.call_errors import CallError
from penstock.core.clock import SystemClock
from penstock.sandbox.processes.process_sandbox import ProcessSandbox
from penstock.sandbox.script import Bounds, Sandbox
from penstock.testing.bridge import FakeBridge
from tests.kit.scripts import script_of

pytestmark = pytest.mark.programs
HERE = Path(__file__).parents[1] / "sandbox" / "attacks"
ATTACKS, SPOILS = sorted(HERE.glob("*.mjs")), sorted((HERE / "spoil").glob("*.mjs"))
LATE = 0.05
"""Seconds past its deadline after which a script must be gone."""
BUSY = 0.4
"""What a machine may take away from a script in addition, where that cannot be measured."""
PATIENCE = 20.0
"""The time limit in seconds of a script that has to end for another reason."""
PRESSURE = Path("/proc/pressure/cpu")
HAS_WAITS = Path("/proc/self/schedstat").exists()
CANARY = script_of("""
    export async function run() {
      let sum = 0;
      for (let n = 0; n < 20; n++) {
        const { output } = await flo.callTool({ tool_id: "look", input: { n } });
        sum += output.n;
      }
      return sum;
    }
""")
BEFORE = """
    const { defineProperty: define, getOwnPropertyNames: own } = Object;
    const Problem = Error, ProxyBefore = Proxy, bytes = new Uint8Array([97, 98]);
    const evil = () => { throw new Problem("evil"); };
    const value = { __proto__: null, n: 1 };
"""
RUN = """
    export async function run() {
      SPOIL;
      const called = flo.callTool({ tool_id: "look", input: value });
      const put = flo.state.put({ scope_kind: "task", key: "k", value });
      const headers = { __proto__: null, "X-A": "1" };
      const sent = fetch("https://x.example/p?q=1", { method: "POST", body: bytes, headers });
      const slept = flo.sleep(1);
      const told = flo.task.emitEvent({ event_type: "e", payload: value });
      console.log("said %s", value, "z");
      try { await put; } catch (error) { if (error.code !== "NOT_AVAILABLE") throw error; }
      await slept;
      await told;
      if ((await called).output.n !== 1) throw new Problem("another output");
      if (await (await sent).text() !== "hi") throw new Problem("another text");
      throw new Problem("x");
    }
"""
SECRETS = re.compile(r"/(?:home|root|usr|work|tmp)/|site-packages|\.py\b|0x[0-9a-f]{6}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an attack ended."""

    code: str
    """Of the error, or `success`."""
    said: str
    output: Any
    took: float


def bridge() -> FakeBridge:
    def look(asked: Any) -> Any:
        return {"status": "success", "output": asked["input"] or {"seen": asked["tool_id"]}}

    return FakeBridge({"callTool": look, "time.formatUnixTimestamp": lambda _: "1970"})


async def attack(sandbox: Sandbox, source: str, seconds: float, host: FakeBridge) -> Ending:
    clock = SystemClock()
    started = clock.monotonic()
    code, said, output = "success", "", None
    try:
        output = await sandbox.run(script_of(source), {}, host, Bounds(seconds=seconds))
    except CallError as error:
        code, said = error.code, f"{error} {json.dumps(error.details)}"
    return Ending(code=code, said=said, output=output, took=clock.monotonic() - started)


async def canary(sandbox: Sandbox) -> int:
    """Run an innocent script: of another task, as scripts of others are."""
    host = bridge()
    host.task = "canary"
    found: int = await sandbox.run(CANARY, {}, host, Bounds(seconds=20))
    return found


def waited(sandbox: Sandbox) -> float:
    """Return for how many seconds, so far, a script could not run because the machine was busy.

    For scripts in this process: while a thread of it waited for a core. In other processes: while
    anything on this machine did. Where neither is known the answer is always 0.
    """
    if isinstance(sandbox, ProcessSandbox):
        found = PRESSURE.read_text().split("total=")[1].split() if PRESSURE.exists() else []
        return int(found[0]) / 1e6 if found else 0
    threads = Path("/proc/self/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[1]) for each in threads) / 1e9


def wish(source: str, name: str, otherwise: str) -> str:
    found = re.search(rf"^// {name}: (.*)$", source, re.MULTILINE)
    return found[1] if found else otherwise


@pytest.mark.slow("a script that never ends is given some time, and may fill its memory")
@pytest.mark.parametrize(
    "source", [pytest.param(path.read_text(), id=path.stem) for path in ATTACKS]
)
async def test_an_attack_ends_as_it_should_and_a_canary_does_not_notice(
    sandbox: Sandbox, source: str, pytestconfig: pytest.Config
) -> None:
    """A script that exceeds any limit affects nothing else: other calls continue."""
    host = bridge()
    seconds = float(wish(source, "seconds", "0.3"))
    wanted = [wish(source, "ends", "")]
    # On a busy machine another limit than the wanted one must not come first.
    limit = seconds if wanted[0] in {"TIMEOUT", "*"} else max(seconds, PATIENCE)
    before = waited(sandbox)
    ending, sung = await asyncio.gather(attack(sandbox, source, limit, host), canary(sandbox))
    taken = max(waited(sandbox) - before, 0)  # a thread that ended takes its time with it
    if isinstance(sandbox, ProcessSandbox) or not HAS_WAITS:
        taken += BUSY
    assert sung == 190
    assert ending.took < seconds + LATE + taken
    if "deno" in pytestconfig.getoption("--engine"):
        wanted.append(wish(source, "or, where V8 runs it", wanted[0]))
    assert wanted[0] == "*" or ending.code in wanted, ending
    assert wish(source, "says", "") in ending.said
    if (output := wish(source, "output", "")) and ending.code == wanted[0]:
        assert ending.output == json.loads(output)
    shown = f"{ending.said} {ending.output} {host.printed[:50]} {host.warned}"
    assert not SECRETS.search(shown)
    assert len(host.printed) <= 2001
    assert sum(len(line) for _, line in host.printed) <= 262_144 + 8_192


@pytest.mark.parametrize("spoil", [pytest.param(path.read_text(), id=path.stem) for path in SPOILS])
async def test_changed_globals_of_a_script_do_not_change_its_host_calls(
    sandbox: Sandbox, spoil: str
) -> None:
    host = FakeBridge(
        {
            "callTool": lambda asked: {"status": "success", "output": asked["input"]},
            "fetch": lambda _: {"status": 200, "url": "u", "headers": {}, "body": b"hi"},
            "task.emitEvent": lambda _: None,
        }
    )
    ending = await attack(sandbox, BEFORE + RUN.replace("SPOIL", spoil), 5, host)
    assert host.asked == [
        ("callTool", {"tool_id": "look", "input": {"n": 1}, "wait": True}),
        ("state.put", {"scope_kind": "task", "key": "k", "value": {"n": 1}}),
        (
            "fetch",
            {
                "url": "https://x.example/p?q=1",
                "method": "POST",
                "headers": [["x-a", "1"]],
                "body": {"kind": "bytes", "attachment": 0},
                "redirect": "follow",
                "record": True,
                "attachments": [b"ab"],
            },
        ),
        ("sleep", {"ms": 1}),
        ("task.emitEvent", {"event_type": "e", "level": "info", "payload": {"n": 1}}),
    ]
    assert host.printed == [("info", "said [Object: null prototype] { n: 1 } z")]
    assert (ending.code, ending.said.partition(" ")[0]) == ("SCRIPT_ERROR", "x")


@pytest.mark.parametrize("levels", [199, 201, 250, 3000])
@pytest.mark.parametrize(
    "call",
    [
        "flo.callTool({ tool_id: 't', input: { deep } })",
        "flo.task.putState({ key: 'k', value: { deep } })",
        "flo.task.emitEvent({ event_type: 'e', payload: { deep } })",
    ],
)
async def test_too_deep_nesting_is_an_error_that_can_be_caught(
    sandbox: Sandbox, call: str, levels: int
) -> None:
    bridge = FakeBridge(dict.fromkeys(("callTool", "task.putState", "task.emitEvent"), lambda _: 1))
    caught = f"""await (async () => {{
      let deep = 1;
      for (let n = 0; n < {levels}; n++) deep = [deep];
      const name = await {call}.then(() => "", (error) => error.name);
      await flo.callTool({{ tool_id: "t" }});
      return name;
    }})()"""
    source = f"export const run = async () => ({caught});"
    ending = await attack(sandbox, source, 5, bridge)
    assert ending.output == ("" if levels < 200 else "TypeError")


@pytest.mark.alone
@pytest.mark.slow("many scripts that never end share two cores with one that does")
async def test_looping_scripts_do_not_delay_others(sandbox: Sandbox) -> None:
    looping = [
        asyncio.create_task(attack(sandbox, "for (;;); export const run = 1;", 6, bridge()))
        for _ in range(40)
    ]
    await asyncio.wait(looping, timeout=0.1)
    assert await canary(sandbox) == 190
    assert not all(task.done() for task in looping)
    assert {(await task).code for task in looping} == {"TIMEOUT"}


async def test_the_root_of_a_workspace_is_a_path_that_the_host_may_judge(sandbox: Sandbox) -> None:
    """W3: `task://` alone is the root directory."""
    host = FakeBridge({"fs.readBytes": lambda _: b""})
    source = "export const run = () => flo.fs.readBytes('task://').then((bytes) => bytes.length);"
    ending = await attack(sandbox, source, 5, host)
    assert (ending.output, host.asked) == (0, [("fs.readBytes", {"path": "task://"})])
