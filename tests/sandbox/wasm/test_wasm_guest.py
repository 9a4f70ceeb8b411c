"""Steps on the loop and in threads: where they are computed makes no difference."""

from typing import Any

from penstock.sandbox.script import Bounds, Sandbox
from penstock.testing.bridge import FakeBridge
from tests.kit.scripts import script_of

CALL = 'const call = (n) => flo.callTool({ tool_id: "t", input: n }).then((e) => e.output);'


async def run(sandbox: Sandbox, source: str, bridge: FakeBridge) -> Any:
    return await sandbox.run(script_of(source), {"n": 1}, bridge, Bounds(seconds=5))


def echo(asked: Any) -> Any:
    return {"status": "success", "output": asked["input"]}


async def test_a_long_step_goes_on_in_a_thread_as_if_it_had_begun_there(
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
    found = await run(sandbox, source, bridges[0])
    short = await run(sandbox, source.replace("1e6", "1"), bridges[1])
    assert found == short
    assert bridges[0].asked == bridges[1].asked
    assert bridges[0].printed == [("info", "begun"), ("info", "computed")]


async def test_a_script_may_run_in_threads_alone(threaded: Sandbox) -> None:
    source = f"""{CALL}
        export async function run() {{
          const all = await Promise.all([1, 2, 3].map(call));
          return all.length + (await call(4));
        }}
    """
    assert await run(threaded, source, FakeBridge({"callTool": echo})) == 7


async def test_an_error_that_nobody_took_holds_nobody_up_while_it_is_told(
    threaded: Sandbox,
) -> None:
    """The engine lingers for a tick: no epochs come unless one is wanted for this script."""
    source = """
        export async function run() {
          Promise.reject({ get message() { for (;;); } });
          return 1;
        }
    """
    bridge = FakeBridge()
    assert (await run(threaded, source, bridge), bridge.warned) == (1, [])


async def test_what_a_long_step_said_is_counted_once_though_it_is_computed_again(
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
